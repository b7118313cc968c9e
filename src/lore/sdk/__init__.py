"""Bodies to the arguments of providers' SDKs, and their responses to replies. No SDK is ever imported."""
