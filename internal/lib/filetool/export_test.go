package filetool

// SetPage sets the number of entries on a page of a listing.
func (t *Tools) SetPage(entries int) { t.page = entries }

// ReservedOnWindows is tested on every system.
var ReservedOnWindows = reservedOnWindows

// SetMaxLinked sets how many forbidden files are looked at for further names.
func (t *Tools) SetMaxLinked(files int) { t.shared.linked.most = files }
