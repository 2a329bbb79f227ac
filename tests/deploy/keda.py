"""What KEDA's objects may hold, as far as ours use it, after its custom resource definitions (keda.sh/v1alpha1).

No package that could be installed beside the others carries those definitions. This is strict: what is not listed is refused.
"""

from __future__ import annotations

from typing import Any


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 0}
NUMBER = {"type": "string", "pattern": r"^\d+(\.\d+)?$"}  # Metadata of triggers is text, numbers too.
METADATA = _object(["name"], name=TEXT)

SECRET = _object(["parameter", "name", "key"], parameter={"enum": ["host", "userName", "password"]}, name=TEXT, key=TEXT)

POLICY = _object(["type", "value", "periodSeconds"], type={"enum": ["Pods", "Percent"]}, value=COUNT, periodSeconds=COUNT)
RULES = _object(["stabilizationWindowSeconds"], stabilizationWindowSeconds=COUNT, policies={"type": "array", "items": POLICY})
BEHAVIOR = _object(["scaleUp", "scaleDown"], scaleUp=RULES, scaleDown=RULES)

TRIGGER = _object(
    ["type", "metadata", "authenticationRef"],
    type={"const": "postgresql"},
    metricType={"enum": ["AverageValue", "Value"]},
    authenticationRef=_object(["name"], name=TEXT),
    metadata=_object(
        ["query", "targetQueryValue", "port", "dbName", "sslmode"],
        query=TEXT,
        targetQueryValue=NUMBER,
        activationTargetQueryValue=NUMBER,
        port=NUMBER,
        dbName=TEXT,
        sslmode={"enum": ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]},
    ),
)

SCHEMAS: dict[str, dict[str, Any]] = {
    "TriggerAuthentication": _object(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion={"const": "keda.sh/v1alpha1"},
        kind={"const": "TriggerAuthentication"},
        metadata=METADATA,
        spec=_object(["secretTargetRef"], secretTargetRef={"type": "array", "items": SECRET, "minItems": 3}),
    ),
    "ScaledObject": _object(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion={"const": "keda.sh/v1alpha1"},
        kind={"const": "ScaledObject"},
        metadata=METADATA,
        spec=_object(
            ["scaleTargetRef", "triggers", "minReplicaCount", "maxReplicaCount"],
            scaleTargetRef=_object(["name"], name=TEXT),
            minReplicaCount=COUNT,
            maxReplicaCount=COUNT,
            pollingInterval=COUNT,
            fallback=_object(["failureThreshold", "replicas"], failureThreshold=COUNT, replicas=COUNT),
            advanced=_object([], horizontalPodAutoscalerConfig=_object([], behavior=BEHAVIOR)),
            triggers={"type": "array", "items": TRIGGER, "minItems": 1},
        ),
    ),
}
