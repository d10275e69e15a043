"""History out of any server that speaks Prometheus' HTTP API: Prometheus, Thanos, Mimir, VictoriaMetrics."""
