// Command gosdk_older drives an older version of Google's Go library. It is a module of its own,
// because a program has one version of each module; see gosdk for what the driver expects.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"
)

const model = "gemini-3-flash"

func main() {
	wanted := strings.Split(os.Getenv("PERIGEE_SCENARIOS"), ",")
	for name, run := range map[string]func(context.Context) error{"broken stream": brokenStream, "silent stream": silentStream} {
		if !slices.Contains(wanted, name) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		if err := run(ctx); err != nil {
			fmt.Printf("fail %s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", " | "))
		} else {
			fmt.Printf("pass %s\n", name)
		}
		cancel()
	}
}

func brokenStream(ctx context.Context) error {
	token := "tok" + rand.Text()
	text, err := ask(ctx, "[[text: one two three four five six "+token+"]] [[chunks: 7]] cut every "+token)
	switch {
	case err == nil:
		return fmt.Errorf("the stream ends as if it were complete: %q", text)
	case strings.Contains(text, token):
		return fmt.Errorf("all of the text came: %q", text)
	case !strings.Contains(err.Error(), "shaky"):
		return fmt.Errorf("the error does not say what perigee said: %w", err)
	}
	return nil
}

func silentStream(ctx context.Context) error {
	token := "tok" + rand.Text()
	text, err := ask(ctx, "[[text: it is "+token+"]] [[chunks: 2]] [[pace: 20s]] think long "+token)
	if err == nil && text != "it is "+token {
		err = fmt.Errorf("the answer is %q", text)
	}
	return err
}

// ask returns the text that a program sees, also when it fails.
func ask(ctx context.Context, prompt string) (text string, err error) {
	client, err := genai.NewClient(ctx, &genai.ClientConfig{
		APIKey: os.Getenv("PERIGEE_KEY"), Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: os.Getenv("PERIGEE_SHAKY")},
	})
	if err != nil {
		return "", err
	}
	for chunk, err := range client.Models.GenerateContentStream(ctx, model, genai.Text(prompt), nil) {
		if err != nil {
			return text, err
		}
		text += chunk.Text()
	}
	return text, nil
}
