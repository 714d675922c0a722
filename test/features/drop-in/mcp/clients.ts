/** @module Unmodified MCP clients of a service, for tests. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as EarlierClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as EarlierTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

export interface ToolResult {
  readonly isError: boolean
  /** The JSON of the answer. */
  readonly body: Record<string, unknown>
  readonly text: string
}

export interface TestClient extends AsyncDisposable {
  names(): Promise<string[]>
  /** Rejects for an error of the protocol. */
  call(name: string, input?: Record<string, unknown>): Promise<ToolResult>
}

interface AnyClient {
  listTools(): Promise<{ tools: { name: string }[] }>
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
  names: async () => (await client.listTools()).tools.map(({ name }) => name),
  async call(name, input = {}) {
    const { content, isError = false } = (await client.callTool({ name, arguments: input })) as {
      content: { text: string }[]
      isError?: boolean
    }
    const text = content.map((part) => part.text).join('')
    return { isError, text, body: text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {} }
  },
  [Symbol.asyncDispose]: () => client.close(),
})
