"""Amazon EMR: clusters with uniform instance groups. Bootstrap actions and steps are not executed."""
