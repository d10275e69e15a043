"""Request spans over OTLP: what one request cost, exactly. How they come here stands in docs/spans.md."""
