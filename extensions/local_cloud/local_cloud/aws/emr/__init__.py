"""Amazon EMR: clusters with uniform instance groups, whose hosts execute the bootstrap actions. Steps are not executed."""
