/** @module Requests that the process makes to its own routes. */

/** A request as a client would send it: with the length of its body. */
export async function createInternalRequest(url: string, init: RequestInit): Promise<Request> {
  if (init.body === undefined || init.body === null) return new Request(url, init)
  const body = await new Response(init.body).bytes()
  const headers = new Headers(init.headers)
  headers.set('content-length', String(body.byteLength))
  return new Request(url, { ...init, headers, body })
}
