package perigee

// A StoreReport is what perigee keeps, and what that takes.
type StoreReport struct {
	Engine   string     `json:"engine"`     // sqlite or postgres
	Database string     `json:"database"`   // the file or the address, without a password
	Bytes    int64      `json:"bytes"`      // of the database with its log
	Log      int64      `json:"log_bytes"`  // of its write-ahead log, where that is a file
	Free     int64      `json:"free_bytes"` // in the database, for what comes next; StoreCompact returns it
	Rows     []StoreRow `json:"rows"`
}

// A StoreRow is one kind of thing that is kept. A zero limit is none.
type StoreRow struct {
	What     string `json:"what"`
	Count    int64  `json:"count"`
	Bytes    int64  `json:"bytes"`               // on disk, indexes included
	Counted  int64  `json:"counted_bytes"`       // what counts for MaxBytes
	MaxCount int64  `json:"max_count,omitempty"` // the oldest go beyond that
	MaxBytes int64  `json:"max_bytes,omitempty"`
	Keep     int64  `json:"keep_seconds,omitempty"` // how long one is kept at most
}

// A StoreCompacted says what compacting a database has brought.
type StoreCompacted struct {
	Database string `json:"database"`
	Before   int64  `json:"before_bytes"`
	After    int64  `json:"after_bytes"`
	Freed    int64  `json:"freed_bytes"`
	Note     string `json:"note,omitempty"` // what else could be done
}
