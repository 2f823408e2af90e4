"""finance: prices, rates and volatilities."""
