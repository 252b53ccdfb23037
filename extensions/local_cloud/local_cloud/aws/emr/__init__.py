"""Amazon EMR: clusters with uniform instance groups. Hosts execute the bootstrap actions, but steps are not executed."""
