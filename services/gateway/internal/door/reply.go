package door

import "github.com/banksman/banksman/services/gateway/internal/door/httpjson"

// Body limits, in bytes.
const (
	maxBody  = 2 << 20 // an answer, a prompt with its attachments
	maxSmall = 8 << 10
	// maxManage fits the roles of a user with many projects.
	maxManage = 256 << 10
)

// How all routes answer.
var (
	reply       = httpjson.Write
	fail        = httpjson.Fail
	failInvalid = httpjson.Invalid
	statusOf    = httpjson.StatusOf
	read        = httpjson.Read
	unread      = httpjson.Unread
)
