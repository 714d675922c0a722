/**
 * @module Calls the language model that the operator chose, at `llmUrl`, with OpenAI's chat completions API, which most
 * model servers support. Every failure is a value with a reason that is safe to log: the reason contains no prompt,
 * no response and no key. Never follows a redirect, retries or stores anything.
 *
 * Uses `fetch`, not the client for tenants' URLs, which refuses private addresses and plain http: the operator gave the
 * URL, and the model may run on this machine. Bun's fetch sends at most 256 concurrent requests per process, so callers
 * limit their own.
 */
import { attempt } from '#platform/errors.ts'
import { readBounded } from './bounded-fetch.ts'

/** The operator's model settings. */
export interface LlmConfig {
  readonly llmUrl: string
  /** Uses of the model that the operator allows; features define their names. */
  readonly llmUses: readonly string[]
  readonly llmKey: string
  readonly llmModel: string
}

/** Whether an endpoint is set and the operator allows this use of the model. */
export const canUseModel = ({ llmUrl, llmUses }: LlmConfig, use: string): boolean =>
  llmUrl !== '' && llmUses.includes(use)

export interface ModelRequest {
  readonly system: string
  /**
   * Data that the model must not treat as instructions. Callers send it as JSON, so that no text in it can end the data
   * early.
   */
  readonly user: string
  /**
   * The output format to request, which not every endpoint supports: a JSON Schema, any JSON object (the default), or
   * free text.
   */
  readonly form?: { readonly name: string; readonly schema: object } | 'object' | 'any'
  /** Limit for the whole response body. */
  readonly maxAnswerBytes: number
  readonly signal: AbortSignal
}

export type ModelResponse = {
  readonly kind: 'answered'
  /** The model's output, unmodified: untrusted, like input from a remote client. */
  readonly content: string
  /** Token counts as the endpoint reports them; 0 when it reports none. */
  readonly inputTokens: number
  readonly outputTokens: number
}

export type ModelFailure = {
  readonly kind: 'failed'
  /** A phrase without a full stop, such as `it responded with 500`. */
  readonly reason: string
  /** HTTP status of the response, if there was one. */
  readonly status?: number | undefined
}

/** Calls the model once. Never rejects; an aborted signal counts as a failure. */
export async function askModel(config: LlmConfig, question: ModelRequest): Promise<ModelResponse | ModelFailure> {
  try {
    const response = await fetch(`${config.llmUrl.replace(/(?<!\/)\/+$/, '')}/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json',
        // The request asks for no compression, because a small compressed response may expand to a large one.
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
    if (response.status !== 200) return toFailure(`it responded with ${response.status}`, response.status)
    if (text === undefined) return toFailure(`its response is larger than ${question.maxAnswerBytes} bytes`, 200)
    const body = tryParseJson(text)
    const content = readMember(readMember(readMember(readMember(body, 'choices'), '0'), 'message'), 'content')
    if (typeof content !== 'string') return toFailure('its response is not a chat completion', 200)
    const usage = readMember(body, 'usage')
    return {
      kind: 'answered',
      content,
      inputTokens: toTokenCount(readMember(usage, 'prompt_tokens')),
      outputTokens: toTokenCount(readMember(usage, 'completion_tokens')),
    }
  } catch (error) {
    return toFailure(question.signal.aborted ? 'no response in time' : describeError(error))
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
 * The JSON object in the output. Some models wrap the object in code fences or prose, or write it after their
 * reasoning. Undefined when there is none.
 */
export function parseJsonObject(content: string): unknown {
  const output = content.replace(/^\s*<think>.*?<\/think>/s, '')
  return tryParseJson(output.slice(output.indexOf('{'), output.lastIndexOf('}') + 1))
}

/** An own member of an object or array; undefined for any other value. */
export const readMember = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined

const tryParseJson = (text: string): unknown => attempt(() => JSON.parse(text))

const MAX_TOKEN_COUNT = 1_000_000_000

const toTokenCount = (value: unknown): number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_TOKEN_COUNT ? value : 0

const toFailure = (reason: string, status?: number): ModelFailure => ({ kind: 'failed', reason, status })

const describeError = (error: unknown): string => (error instanceof Error ? error.message : String(error)).slice(0, 200)
