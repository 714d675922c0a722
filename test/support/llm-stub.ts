/**
 * @module A stub of a language model server (OpenAI's chat completions), on a real socket of 127.0.0.1. A test sets its
 * responses.
 */

export interface ModelCall {
  readonly path: string
  readonly authorization: string | null
  /** The body as received. */
  readonly text: string
  readonly body: {
    readonly model?: string
    readonly messages: readonly { readonly role: string; readonly content: string }[]
    readonly response_format?: unknown
  }
}

export interface LlmStub extends AsyncDisposable {
  /** For TASSIS_LLM_URL. */
  readonly url: string
  readonly asked: ModelCall[]
  /** The response from now on. */
  answer: (asked: ModelCall) => Response | Promise<Response>
}

export function startLlmStub(answer: LlmStub['answer']): LlmStub {
  const asked: ModelCall[] = []
  const stub = { answer }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const text = await request.text()
      const one = {
        path: new URL(request.url).pathname,
        authorization: request.headers.get('authorization'),
        text,
        body: JSON.parse(text) as ModelCall['body'],
      }
      asked.push(one)
      return stub.answer(one)
    },
  })
  return Object.assign(stub, {
    url: `http://127.0.0.1:${server.port}/v1`,
    asked,
    [Symbol.asyncDispose]: () => server.stop(true),
  })
}

export const llmSettings = (stub: { readonly url: string }): Record<string, string> => ({
  TASSIS_LLM_URL: stub.url,
  TASSIS_LLM_KEY: 'llm-secret',
  TASSIS_LLM_MODEL: 'test-model',
})

/** A completion with this content; values other than text are sent as JSON. */
export const replyWith = (content: unknown, usage: unknown = { prompt_tokens: 120, completion_tokens: 30 }): Response =>
  Response.json({
    choices: [
      { message: { role: 'assistant', content: typeof content === 'string' ? content : JSON.stringify(content) } },
    ],
    usage,
  })
