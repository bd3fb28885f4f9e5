package conversation

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// OwnOptions configure an Own. Zero values mean defaults.
type OwnOptions struct {
	Name   string // of the upstream
	Client Deleter
	// Dir has a file for each conversation, so that the conversations of a killed process can be
	// found. If it is empty, they cannot.
	Dir string
	// Attached means that the language server belongs to an IDE. A conversation that its user has
	// continued belongs to the user.
	Attached bool
	// Deleted is called for each conversation that the language server no longer has. It may be
	// nil.
	Deleted func(cascade string)
	Logger  *slog.Logger

	run string // identifies this process; tests set it
}

// An Own tracks the conversations that perigee has started in a language server to answer calls.
// It never deletes any other conversation. A nil *Own deletes none.
type Own struct {
	opts OwnOptions

	mu     sync.Mutex
	sent   map[string]messages // messages of the conversations of this process
	failed map[string]bool     // conversations that could not be deleted yet
}

// thisRun distinguishes conversations of this process from conversations of an earlier one.
var thisRun = rand.Text()

// NewOwn returns an Own.
func NewOwn(opts OwnOptions) *Own {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.run = cmp.Or(opts.run, thisRun)
	return &Own{opts: opts, sent: map[string]messages{}, failed: map[string]bool{}}
}

// A Deleter deletes conversations. NewClient returns one.
type Deleter interface {
	// Delete removes a conversation permanently. It is not an error if the server does not have
	// it.
	Delete(ctx context.Context, cascade string) error
	// Inputs returns the texts of the messages of a conversation, including messages that perigee
	// has not sent. It returns none if the server does not have the conversation.
	Inputs(ctx context.Context, cascade string) ([]string, error)
}

// messages are digests of texts that perigee has sent to a conversation, or was about to send.
type messages []string

func digest(text string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(text)))
	return hex.EncodeToString(sum[:8])
}

// containAll reports whether each of the texts is one of these messages.
func (m messages) containAll(texts []string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !slices.Contains(m, digest(text)) })
}

// addConversation records a conversation before its first message.
func (o *Own) addConversation(cascade string) { o.note(cascade) }

// addMessage records that a message is about to be sent.
func (o *Own) addMessage(cascade, text string) { o.note(cascade, digest(text)) }

func (o *Own) note(cascade string, texts ...string) {
	if o == nil || cascade == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[cascade] = append(o.sent[cascade], texts...)
	path := o.path(cascade)
	if path == "" {
		return
	}
	err := os.MkdirAll(o.opts.Dir, 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Join(append([]string{o.opts.run}, o.sent[cascade]...), " ")), 0o600)
	}
	if err != nil {
		o.opts.Logger.Warn("conversation of the language server not noted; it stays if perigee is killed", "upstream", o.opts.Name, "error", err)
	}
}

// path returns the file of a conversation, or "" if it has none.
func (o *Own) path(cascade string) string {
	if o.opts.Dir == "" || len(cascade) > 200 || filepath.Base(cascade) != cascade || !filepath.IsLocal(cascade) {
		return ""
	}
	return filepath.Join(o.opts.Dir, cascade)
}

// leave hands a conversation over to the user of the IDE. It is not deleted after that.
func (o *Own) leave(cascade string) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sent, cascade)
	delete(o.failed, cascade)
	if path := o.path(cascade); path != "" {
		_ = os.Remove(path) // or there is none
	}
}

// delete removes conversations, and earlier ones that could not be removed. Conversations that
// cannot be removed now are left to the next call, to Sweep, or to the next process.
func (o *Own) delete(ctx context.Context, cascades ...string) {
	if o == nil {
		return
	}
	o.mu.Lock()
	list := map[string]messages{}
	for _, cascade := range slices.AppendSeq(cascades, maps.Keys(o.failed)) {
		if sent, ok := o.sent[cascade]; ok {
			list[cascade] = sent
		}
	}
	o.mu.Unlock()
	o.deleteAll(ctx, list)
}

// Leftovers returns the conversations of earlier processes.
func (o *Own) Leftovers() []string { return slices.Sorted(maps.Keys(o.leftovers())) }

func (o *Own) leftovers() map[string]messages {
	list := map[string]messages{}
	if o.opts.Dir == "" {
		return list
	}
	entries, err := os.ReadDir(o.opts.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.opts.Logger.Warn("conversations of the language server cannot be listed", "upstream", o.opts.Name, "error", err)
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(o.opts.Dir, entry.Name()))
		if words := strings.Fields(string(text)); err == nil && (len(words) == 0 || words[0] != o.opts.run) {
			list[entry.Name()] = words[min(1, len(words)):]
		}
	}
	return list
}

// Sweep removes the conversations of earlier processes, and earlier ones that could not be
// removed. It is called when the language server has become ready.
func (o *Own) Sweep(ctx context.Context) {
	list := o.leftovers()
	o.mu.Lock()
	for cascade := range o.failed {
		list[cascade] = o.sent[cascade]
	}
	o.mu.Unlock()
	if len(list) > 0 {
		o.opts.Logger.Info("removing conversations that were left in the language server", "upstream", o.opts.Name, "count", len(list))
		o.deleteAll(ctx, list)
	}
}

// deleteAll removes conversations, given the messages that perigee has sent to each.
func (o *Own) deleteAll(ctx context.Context, list map[string]messages) {
	for cascade, sent := range list {
		kept, err := o.deleteOne(ctx, cascade, sent)
		if err != nil {
			o.mu.Lock()
			o.failed[cascade], o.sent[cascade] = true, sent
			o.mu.Unlock()
			o.opts.Logger.Info("conversation of the language server not deleted yet", "upstream", o.opts.Name, "error", err)
			continue
		}
		o.leave(cascade)
		if !kept && o.opts.Deleted != nil {
			o.opts.Deleted(cascade)
		}
	}
}

// isShared reports whether the user of the IDE has written to a conversation.
func (o *Own) isShared(ctx context.Context, cascade string) (bool, error) {
	if o == nil || !o.opts.Attached {
		return false, nil
	}
	o.mu.Lock()
	sent := o.sent[cascade]
	o.mu.Unlock()
	texts, err := o.opts.Client.Inputs(ctx, cascade)
	return !sent.containAll(texts), err
}

// deleteOne removes a conversation unless it has a message that perigee has not sent: then it
// belongs to the user, and kept is true.
func (o *Own) deleteOne(ctx context.Context, cascade string, sent messages) (kept bool, err error) {
	if o.opts.Attached {
		if texts, err := o.opts.Client.Inputs(ctx, cascade); err != nil || !sent.containAll(texts) {
			return err == nil, err
		}
	}
	return false, o.opts.Client.Delete(ctx, cascade)
}

// A Background runs functions that a call does not wait for. The zero value is ready for use.
type Background struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// Go runs a function in the background. It returns false, and does not run it, after Close was
// called.
func (b *Background) Go(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.group.Go(f)
	}
	return !b.closed
}

// Close waits for the functions, or for the end of ctx.
func (b *Background) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	over := make(chan struct{})
	go func() { b.group.Wait(); close(over) }()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
