"""Messages for the tests: a plain one, and all that somebody could think of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from cortex_plane.approvals.messages import ApprovalMessage, ClosedMessage

TOKEN = "cortex_apr_1_x7Kj2mN9pQ4rS6tU8vW0yA3cE5fG7hI9jK1lM3nO4pQ"
AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
APPROVED = ClosedMessage("approved", "Alice", None, AT)


def message(**changes: Any) -> ApprovalMessage:
    token = changes.get("token", TOKEN)
    fields: dict[str, Any] = {
        "title": "Deploy 1.4.0 to production",
        "summary": "All tests passed.",
        "details": {"image": "app:1.4.0", "replicas": 3},
        "agent": "release-bot",
        "job_id": "0197a1b2-0000-7000-8000-000000000001",
        "request_id": "0197a1b2-0000-7000-8000-000000000002",
        "expires_at": datetime(2026, 1, 6, 9, 0, tzinfo=UTC),
        "approve_url": f"https://plane.example.com/api/approvals/{token}/approve",
        "deny_url": f"https://plane.example.com/api/approvals/{token}/deny",
        "page_url": f"https://plane.example.com/approvals/{token}",
        "token": token,
    }
    return ApprovalMessage(**{**fields, **changes})


# Whatever begins or ends something in HTML, Markdown, Slack's markup or JSON; what reorders or hides text; what counts double.
NASTY = [
    *"<>&`*_~|#-+[]()\\:@!\"'/{}\n\r\t ",
    "```",
    "</pre>",
    "<!channel>",
    "<@U024BE7LH>",
    "@everyone",
    "&lt;",
    "<a href='https://evil.example'>Approve</a>",
    "[Approve](https://evil.example)",
    "<https://evil.example|Approve>",
    "<!date^1^{date}|x>",
    "<!--",
    "\u202e",
    "\u2028",
    "\x00",
    "\x7f",
    "👩‍💻",
    "\U0001f512",
]
texts = st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=5)), max_size=30).map("".join)
long_texts = st.builds(lambda text, times: text * times, texts, st.sampled_from([1, 1, 300]))
details = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), long_texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)
page_urls = st.sampled_from(
    [
        f"https://plane.example.com/approvals/{TOKEN}",
        f"http://localhost:8000/approvals/{TOKEN}",
        f"https://plane.example.com/{'x' * 400}?a=1&b=(2)*_~{TOKEN[:10]}",
        f"http://localhost/{'(_*' * 160}",
    ]
)
messages = st.builds(
    message, title=long_texts, summary=long_texts, details=details, agent=long_texts, job_id=texts, page_url=page_urls
)
closings = st.builds(
    ClosedMessage,
    st.sampled_from(["approved", "denied", "expired", "cancelled"]),
    st.none() | long_texts,
    st.none() | long_texts,
    st.just(AT),
)
