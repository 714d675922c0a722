/**
 * @module Asks the language model of the operator's choice, at `llmUrl`: chat completions in the shape that OpenAI gave
 * them and most servers of models speak. Every failure is a value with a reason that may be logged; it holds nothing of
 * what was asked, answered, or of the key. Never follows a redirect, never tries again, keeps nothing.
 *
 * By `fetch`: the operator gave the URL, so private addresses and plain http are allowed (a model on this machine),
 * which the client for tenants' URLs refuses. Bun's fetch sends at most 256 requests at once in a process: callers
 * bound how many they have under way.
 */
/** The operator's settings of the model. */
export interface LlmConfig {
  readonly llmUrl: string
  /** What the model may be used for, in words of the features that ask it. */
  readonly llmUses: readonly string[]
  readonly llmKey: string
  readonly llmModel: string
}

/** Whether there is an endpoint, and the operator lets it be used for this. */
export const canUseModel = ({ llmUrl, llmUses }: LlmConfig, use: string): boolean =>
  llmUrl !== '' && llmUses.includes(use)

export interface ModelRequest {
  /** What the model is to do. */
  readonly system: string
  /** Data, which is no instruction: callers give it as JSON, so that nothing in it can end it. */
  readonly user: string
  /**
   * What the endpoint is asked to hold the model to, which not all can: a JSON Schema, any JSON object (the default),
   * or nothing.
   */
  readonly form?: { readonly name: string; readonly schema: object } | 'object' | 'any'
  /** Of the whole body of the answer. */
  readonly maxAnswerBytes: number
  /** Ends the call. */
  readonly signal: AbortSignal
}

export type ModelResponse = {
  readonly kind: 'answered'
  /** What the model said, as it said it: to be judged like anything a stranger sends. */
  readonly content: string
  /** As the endpoint counts them; 0 where it does not say. */
  readonly inputTokens: number
  readonly outputTokens: number
}

export type ModelFailure = {
  readonly kind: 'failed'
  /** One phrase without a full stop, such as `it answered 500`. */
  readonly reason: string
  /** Of the answer, if there was one. */
  readonly status?: number | undefined
}

/** Asks once. Never rejects; an aborted signal is a failure. */
export async function askModel(config: LlmConfig, question: ModelRequest): Promise<ModelResponse | ModelFailure> {
  try {
    const response = await fetch(`${config.llmUrl.replace(/(?<!\/)\/+$/, '')}/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json',
        // What is small when compressed may be large.
        'accept-encoding': 'identity',
        ...(config.llmKey !== '' && { authorization: `Bearer ${config.llmKey}` }),
      },
      body: JSON.stringify({
        ...(config.llmModel !== '' && { model: config.llmModel }),
        messages: [
          { role: 'system', content: question.system },
          { role: 'user', content: question.user },
        ],
        ...toResponseFormat(question.form ?? 'object'),
      }),
      redirect: 'manual',
      decompress: false,
      signal: question.signal,
    })
    const text = await readBounded(response, question.maxAnswerBytes)
    if (response.status !== 200) return toFailure(`it answered ${response.status}`, response.status)
    if (text === undefined) return toFailure(`its answer is larger than ${question.maxAnswerBytes} bytes`, 200)
    const body = tryParseJson(text)
    const content = readMember(readMember(readMember(readMember(body, 'choices'), '0'), 'message'), 'content')
    if (typeof content !== 'string') return toFailure('its answer is no chat completion', 200)
    const usage = readMember(body, 'usage')
    return {
      kind: 'answered',
      content,
      inputTokens: toTokenCount(readMember(usage, 'prompt_tokens')),
      outputTokens: toTokenCount(readMember(usage, 'completion_tokens')),
    }
  } catch (error) {
    return toFailure(question.signal.aborted ? 'no answer in time' : describeError(error))
  }
}

function toResponseFormat(form: NonNullable<ModelRequest['form']>): object {
  if (form === 'any') return {}
  return {
    response_format:
      form === 'object'
        ? { type: 'json_object' }
        : { type: 'json_schema', json_schema: { name: form.name, schema: form.schema, strict: true } },
  }
}

/**
 * The object that the model gave, which some put between fences or words, or behind what they thought; undefined when
 * there is none.
 */
export function parseJsonObject(content: string): unknown {
  const said = content.replace(/^\s*<think>.*?<\/think>/s, '')
  return tryParseJson(said.slice(said.indexOf('{'), said.lastIndexOf('}') + 1))
}

/** An own member of an object or array; undefined of anything else. */
export const readMember = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined

/** The body as text; undefined when it is too large, and then the rest is not read. */
async function readBounded(response: Response, maxBytes: number): Promise<string | undefined> {
  const reader = response.body?.getReader()
  if (!reader) return ''
  const decoder = new TextDecoder()
  let text = ''
  let sizeBytes = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    sizeBytes += value.length
    if (sizeBytes > maxBytes) {
      await reader.cancel()
      return undefined
    }
    text += decoder.decode(value, { stream: true })
  }
}

function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const MAX_TOKEN_COUNT = 1_000_000_000

const toTokenCount = (value: unknown): number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_TOKEN_COUNT ? value : 0

const toFailure = (reason: string, status?: number): ModelFailure => ({ kind: 'failed', reason, status })

const describeError = (error: unknown): string => (error instanceof Error ? error.message : String(error)).slice(0, 200)
