"""What stands on a cluster where Bireme is installed: built once, printed as YAML or as a Helm chart."""
