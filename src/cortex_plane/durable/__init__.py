"""What makes an ordinary async function crash-proof: steps are recorded, and answered from the record later."""
