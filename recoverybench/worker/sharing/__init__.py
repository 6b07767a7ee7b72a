"""How workers give one another the state: what they have, who gives it, and the stream itself."""
