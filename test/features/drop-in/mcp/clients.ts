/** @module Unmodified MCP clients of a service, for tests. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as EarlierClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as EarlierTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

export interface ToolResult {
  readonly isError: boolean
  /** The JSON of the answer. */
  readonly body: Record<string, unknown>
  readonly text: string
  readonly structured: unknown
}

export interface TestClient extends AsyncDisposable {
  /** After this, the client checks each result against the output schema of its tool. */
  tools(): Promise<readonly ListedTool[]>
  names(): Promise<string[]>
  /** Rejects for an error of the protocol. */
  call(name: string, input?: Record<string, unknown>): Promise<ToolResult>
}

interface ListedTool {
  readonly name: string
  readonly outputSchema?: object
}

interface AnyClient {
  listTools(): Promise<{ tools: ListedTool[] }>
  callTool(request: { name: string; arguments: Record<string, unknown> }): Promise<unknown>
  close(): Promise<void>
}

const INFO = { name: 'test', version: '1.0.0' }
const withKey = (key: string) => ({ requestInit: { headers: { Authorization: `Bearer ${key}` } } })

/** A client of the protocol's current version. */
export async function connect(url: string, key: string): Promise<TestClient> {
  const client = new Client(INFO, { versionNegotiation: { mode: 'auto' } })
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', url), withKey(key)))
  return wrapClient(client as AnyClient)
}

/** A client of the package before this one, which begins with `initialize`. */
export async function connectEarlier(url: string, key: string): Promise<TestClient> {
  const client = new EarlierClient(INFO)
  // Its own types of the transport contradict each other under exactOptionalPropertyTypes.
  await client.connect(new EarlierTransport(new URL('/mcp', url), withKey(key)) as never)
  return wrapClient(client as AnyClient)
}

export const wrapClient = (client: AnyClient): TestClient => ({
  tools: async () => (await client.listTools()).tools,
  names: async () => (await client.listTools()).tools.map(({ name }) => name),
  async call(name, input = {}) {
    const {
      content,
      structuredContent,
      isError = false,
    } = (await client.callTool({ name, arguments: input })) as {
      content: { text: string }[]
      structuredContent?: unknown
      isError?: boolean
    }
    const text = content.map((part) => part.text).join('')
    const body = text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {}
    return { isError, text, body, structured: structuredContent }
  },
  [Symbol.asyncDispose]: () => client.close(),
})
