package openai

import (
	"strconv"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// ReadCost reads what an answer costs, in US dollars, as OpenRouter reports it with the usage. Anything
// but a number that is not negative is an unknown cost.
func ReadCost(c *rawjson.Cursor) perigee.Cost {
	if c.Kind() != rawjson.Number {
		c.Skip()
		return perigee.Cost{}
	}
	dollars, err := strconv.ParseFloat(string(c.Raw()), 64)
	if err != nil || dollars < 0 {
		return perigee.Cost{}
	}
	return perigee.USD(dollars)
}
