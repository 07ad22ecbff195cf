package protocol

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

type blockRank int

const (
	rankImage blockRank = iota
	rankDocument
	rankText
)

// PromptBlock is a part of a prompt, made by TextBlock, ImageBlock or
// DocumentBlock.
type PromptBlock struct {
	rank blockRank
	body any
	err  error
}

// TextBlock is a text of the person.
func TextBlock(text string) PromptBlock {
	b := PromptBlock{rank: rankText, body: map[string]any{"type": "text", "text": text}}
	if strings.TrimSpace(text) == "" {
		b.err = errors.New("empty text")
	} else if !utf8.ValidString(text) {
		b.err = errors.New("invalid UTF-8")
	}
	return b
}

// ImageBlock is a PNG, JPEG, GIF or WebP image.
func ImageBlock(mediaType string, data []byte) PromptBlock {
	b := PromptBlock{rank: rankImage, body: map[string]any{"type": "image", "source": base64Source(mediaType, data)}}
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		b.err = fmt.Errorf("media type %q is not an image the model takes", mediaType)
	}
	if len(data) == 0 {
		b.err = errors.New("empty image")
	}
	return b
}

// DocumentBlock is a PDF or a plain text file. title may be empty.
func DocumentBlock(mediaType, title string, data []byte) PromptBlock {
	body := map[string]any{"type": "document"}
	b := PromptBlock{rank: rankDocument, body: body}
	switch mediaType {
	case "application/pdf":
		body["source"] = base64Source(mediaType, data)
	case "text/plain":
		if !utf8.Valid(data) {
			b.err = errors.New("invalid UTF-8")
		}
		body["source"] = map[string]any{"type": "text", "media_type": mediaType, "data": string(data)}
	default:
		b.err = fmt.Errorf("media type %q is not a document the model takes", mediaType)
	}
	if len(data) == 0 {
		b.err = errors.New("empty document")
	}
	if title != "" {
		body["title"] = title
	}
	return b
}

func base64Source(mediaType string, data []byte) map[string]any {
	return map[string]any{"type": "base64", "media_type": mediaType, "data": base64.StdEncoding.EncodeToString(data)}
}

// PromptLine is a message of the person. It orders the blocks: images, documents, then texts, each kind in the
// order given.
func PromptLine(blocks []PromptBlock) ([]byte, error) {
	if len(blocks) == 0 {
		return nil, &InputError{"blocks", "empty prompt"}
	}
	for i, b := range blocks {
		if b.body == nil {
			return nil, &InputError{fmt.Sprintf("blocks[%d]", i), "not made by a constructor"}
		}
		if b.err != nil {
			return nil, &InputError{fmt.Sprintf("blocks[%d]", i), b.err.Error()}
		}
	}
	sorted := slices.Clone(blocks)
	slices.SortStableFunc(sorted, func(a, b PromptBlock) int { return int(a.rank) - int(b.rank) })
	content := make([]any, len(sorted))
	for i, b := range sorted {
		content[i] = b.body
	}
	line, err := json.Marshal(map[string]any{
		"type":               "user",
		"message":            map[string]any{"role": "user", "content": content},
		"parent_tool_use_id": nil,
		"session_id":         "",
	})
	if err != nil {
		return nil, err
	}
	if len(line) > MaxLine {
		return nil, &InputError{"blocks", fmt.Sprintf("%d bytes, at most %d go on one line", len(line), MaxLine)}
	}
	return line, nil
}
