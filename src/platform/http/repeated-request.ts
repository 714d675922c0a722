/**
 * @module Idempotency keys for every route of `/v1` that creates something: a repeated request with the header
 * `Idempotency-Key` gets the response of the first one. Sends have keys of their own, which are stored with the email.
 */
/** The first request with a key, which is being handled. */
export interface NewRequest {
  readonly kind: 'new'
  /** Stores the response for repetitions, or forgets the key when nothing was created. */
  end(response: { readonly status: number; readonly body: string; readonly location: string | null }): Promise<void>
}

/** The response of the first request with a key. */
export interface StoredResponse {
  readonly kind: 'stored'
  readonly status: number
  /** JSON. */
  readonly body: string
  readonly location: string | null
}

/** Where the responses are kept. */
export interface RequestKeys<Actor> {
  /**
   * Stores that a request with this key has begun, unless there was one. Throws 409 for a key that was used for another
   * request, or whose response is not known.
   */
  begin(
    actor: Actor,
    request: { readonly key: string; readonly path: string; readonly body: unknown },
  ): Promise<NewRequest | StoredResponse>
}

/** For the routes that create something, in the API description. */
export const REPEAT_PARAMETER = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'Repeating a request with the same key within 24 hours returns the first response, with the header Idempotency-Replayed, and creates nothing new; another request with the key is a 409.',
  schema: { type: 'string', minLength: 1, maxLength: 256 },
} as const

export const toReplayResponse = ({ status, body, location }: StoredResponse): Response =>
  new Response(body, {
    status,
    headers: {
      'content-type': 'application/json',
      'idempotency-replayed': 'true',
      ...(location !== null && { location }),
    },
  })

/** Ends the request with its response, and returns that. The response is sent even when it could not be stored. */
export async function endNewRequest(
  pending: NewRequest,
  response: Response,
  log: { error(context: object, message: string): void },
): Promise<Response> {
  const { status, headers } = response
  const body = await response.text()
  try {
    await pending.end({ status, body, location: headers.get('location') })
  } catch (error) {
    log.error({ err: error }, 'response not stored for its idempotency key; a repeated request gets a 409')
  }
  return new Response(body, { status, headers })
}
