"""When a run steps and which rows it saves."""
