package schema

// Clean, CleanSparing and CleanResponse clean a schema anew each time.
var (
	Clean         = (*Cache)(nil).Clean
	CleanSparing  = (*Cache)(nil).CleanSparing
	CleanResponse = (*Cache)(nil).CleanResponse
)
