// SPDX-License-Identifier: Apache-2.0

// The Go SDK of MCP, which has no agent: a loop between Anthropic's API and the server's tools.
// plan.py says what the first argument has.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type object = map[string]any

type plan struct {
	Server struct {
		Command    string
		Args       []string
		Env        map[string]string
		URL, Token string
	}
	ModelURL string `json:"model_url"`
	Task     string
}

type block struct {
	Type, Text, ID, Name string
	Input                object
}

// withToken adds the token to each request.
type withToken string

func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

func transport(p plan) mcp.Transport {
	if p.Server.Command == "" {
		client := &http.Client{Transport: withToken(p.Server.Token)}
		return &mcp.StreamableClientTransport{Endpoint: p.Server.URL, HTTPClient: client}
	}
	command := exec.Command(p.Server.Command, p.Server.Args...)
	for name, value := range p.Server.Env {
		command.Env = append(command.Env, name+"="+value)
	}
	return &mcp.CommandTransport{Command: command}
}

func tools(ctx context.Context, session *mcp.ClientSession) []object {
	var found []object
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		found = append(found, object{"name": tool.Name, "description": tool.Description,
			"input_schema": tool.InputSchema})
	}
	return found
}

func ask(url string, request object) []block {
	body, err := json.Marshal(request)
	if err != nil {
		log.Fatal(err)
	}
	answer, err := http.Post(url+"/v1/messages", "application/json", bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	var message struct {
		Content []block
		Error   object
	}
	if err := json.NewDecoder(answer.Body).Decode(&message); err != nil || message.Error != nil {
		log.Fatal(message.Error, err)
	}
	return message.Content
}

// call calls the tool and returns its result as the API takes it.
func call(ctx context.Context, session *mcp.ClientSession, use block) object {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: use.Name, Arguments: use.Input})
	if err != nil {
		log.Fatal(err)
	}
	var content []object
	for _, one := range result.Content {
		switch one := one.(type) {
		case *mcp.TextContent:
			content = append(content, object{"type": "text", "text": one.Text})
		case *mcp.ImageContent:
			source := object{"type": "base64", "media_type": one.MIMEType, "data": one.Data}
			content = append(content, object{"type": "image", "source": source})
		}
	}
	return object{"type": "tool_result", "tool_use_id": use.ID, "content": content,
		"is_error": result.IsError}
}

func main() {
	var p plan
	if err := json.Unmarshal([]byte(os.Args[1]), &p); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := client.Connect(ctx, transport(p), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	messages := []object{{"role": "user", "content": p.Task}}
	for request := (object{"model": "claude-sonnet-4-5", "max_tokens": 1000,
		"tools": tools(ctx, session)}); ; {
		request["messages"] = messages
		var said, results []object
		for _, one := range ask(p.ModelURL, request) {
			if one.Type == "text" {
				said = append(said, object{"type": "text", "text": one.Text})
				fmt.Println(one.Text)
				continue
			}
			said = append(said, object{"type": "tool_use", "id": one.ID, "name": one.Name,
				"input": one.Input})
			results = append(results, call(ctx, session, one))
		}
		if results == nil {
			return
		}
		messages = append(messages, object{"role": "assistant", "content": said},
			object{"role": "user", "content": results})
	}
}
