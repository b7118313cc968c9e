"""What the SDKs of providers take and give: bodies to arguments, responses to replies. None is ever imported."""
