"""How anything is stored: archives, whole replacements, appended lines, written times."""
