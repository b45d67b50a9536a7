"""Night after night: trends, change points and alarms, and the page that shows them."""
