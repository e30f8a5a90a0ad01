"""Other products with Tenure: files for Prometheus and Grafana, Sentry, OpenTelemetry."""
