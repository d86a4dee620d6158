// SPDX-License-Identifier: Apache-2.0
//! rmcp, the Rust SDK of MCP, which has no agent: a loop between Anthropic's API and the server's
//! tools. plan.py says what the first argument has.

use std::env;

use anyhow::{Context, Result, bail};
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, ContentBlock};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use serde_json::{Value, json};
use tokio::process::Command;

type Session = RunningService<RoleClient, ()>;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

async fn connect(server: &Value) -> Result<Session> {
    let Some(program) = server["command"].as_str() else {
        let config = StreamableHttpClientTransportConfig::with_uri(text(&server["url"]))
            .auth_header(text(&server["token"]));
        let transport = StreamableHttpClientTransport::from_config(config);
        return Ok(().serve(transport).await?);
    };
    let mut command = Command::new(program);
    command
        .args(server["args"].as_array().into_iter().flatten().map(text))
        .env_clear();
    for (name, value) in server["env"].as_object().into_iter().flatten() {
        command.env(name, text(value));
    }
    Ok(().serve(TokioChildProcess::new(command)?).await?)
}

async fn tools(session: &Session) -> Result<Vec<Value>> {
    let found = session.list_all_tools().await?;
    Ok(found
        .iter()
        .map(|t| json!({"name": t.name, "description": t.description, "input_schema": t.input_schema}))
        .collect())
}

async fn ask(url: &str, request: &Value) -> Result<Vec<Value>> {
    let sent = reqwest::Client::new()
        .post(format!("{url}/v1/messages"))
        .json(request)
        .send();
    let answer: Value = sent.await?.json().await?;
    if !answer["error"].is_null() {
        bail!("{}", answer["error"]);
    }
    Ok(answer["content"].as_array().context("no content")?.clone())
}

/// Call the tool and return its result as the API takes it.
async fn call(session: &Session, tool_use: &Value) -> Result<Value> {
    let arguments = tool_use["input"].as_object().cloned().unwrap_or_default();
    let name = text(&tool_use["name"]).to_owned();
    let params = CallToolRequestParams::new(name).with_arguments(arguments);
    let result = session.call_tool(params).await?;
    let mut content = vec![];
    for block in &result.content {
        match block {
            ContentBlock::Text(one) => content.push(json!({"type": "text", "text": one.text})),
            ContentBlock::Image(one) => {
                let source =
                    json!({"type": "base64", "media_type": one.mime_type, "data": one.data});
                content.push(json!({"type": "image", "source": source}));
            }
            _ => {}
        }
    }
    Ok(
        json!({"type": "tool_result", "tool_use_id": tool_use["id"], "content": content,
        "is_error": result.is_error.unwrap_or(false)}),
    )
}

#[tokio::main]
async fn main() -> Result<()> {
    let plan: Value = serde_json::from_str(&env::args().nth(1).context("no plan")?)?;
    let session = connect(&plan["server"]).await?;
    let tools = tools(&session).await?;
    let mut messages = vec![json!({"role": "user", "content": plan["task"]})];
    loop {
        let request = json!({"model": "claude-sonnet-4-5", "max_tokens": 1000, "tools": tools,
            "messages": messages});
        let said = ask(text(&plan["model_url"]), &request).await?;
        let mut results = vec![];
        for block in &said {
            if block["type"] == "text" {
                println!("{}", text(&block["text"]));
            } else {
                results.push(call(&session, block).await?);
            }
        }
        if results.is_empty() {
            break;
        }
        messages.push(json!({"role": "assistant", "content": said}));
        messages.push(json!({"role": "user", "content": results}));
    }
    session.cancel().await?;
    Ok(())
}
