/** @module Serves the stub of a DNS provider over HTTPS, and makes it fail in the ways that providers do. */
import type { CertificateAuthority } from '#test/support/certificates.ts'
import { type HttpsReply, type ReceivedRequest, startHttpsReceiver } from '#test/support/https-receiver.ts'
import { type ProviderStub, Refusal, StubZone } from './zone.ts'

/** `other_form`: a success that is not of the API. The last two are of Hetzner, for changes only. */
export type Fault = 'no_rights' | 'rate_limited' | 'html' | 'other_form' | 'action_error' | 'protected'

export interface ServedStub extends AsyncDisposable {
  readonly credentials: Readonly<Record<string, string>>
  /** The first is `example.com`. */
  readonly zones: readonly [StubZone, ...StubZone[]]
  readonly requests: readonly ReceivedRequest[]
  /** The certificate authority of the stub. */
  readonly caFile: string
  fault: Fault | undefined
}

const HTML = '<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><hr>cloud edge</body></html>'

/** @param now the clock of the client, from which that of the provider differs as the stub wants it */
export async function serveStub(stub: ProviderStub, ca: CertificateAuthority, now: () => number): Promise<ServedStub> {
  const receiver = await startHttpsReceiver({ names: ['localhost'], ca })
  const zones = [new StubZone('example.com'), new StubZone('other.org')] as const
  const served = {
    credentials: { ...stub.credentials, api_url: receiver.url('localhost', '') },
    zones,
    requests: receiver.requests,
    caFile: receiver.caFile,
    fault: undefined as Fault | undefined,
    [Symbol.asyncDispose]: () => receiver.close(),
  }
  const refuse = (refusal: Refusal, headers = {}): HttpsReply => ({
    status: refusal.status,
    headers: { 'content-type': 'application/json', ...headers },
    body: stub.describe(refusal),
  })
  receiver.answer(({ method, url, headers, text: body }) => {
    if (served.fault === 'html') return { status: 502, headers: { 'content-type': 'text/html' }, body: HTML }
    if (served.fault === 'other_form') return { body: stub.name === 'route53' ? '<Ok>yes</Ok>' : '{"ok":"yes"}' }
    if (served.fault === 'no_rights') return refuse(new Refusal(403, 'Not allowed for you', 'AccessDenied'))
    if (served.fault === 'rate_limited')
      return stub.name === 'route53'
        ? refuse(new Refusal(400, 'Rate exceeded', 'Throttling'))
        : refuse(new Refusal(429, 'Slow down'), { 'retry-after': '7' })
    if (served.fault === 'protected' && method === 'POST')
      return refuse(new Refusal(423, 'RRSet is protected', 'protected'))
    if (served.fault === 'action_error' && method === 'POST')
      return { body: '{"action":{"id":9,"status":"error","error":{"code":"action_failed","message":"too bad"}}}' }
    const { pathname: path, searchParams: query, href } = new URL(url, receiver.url('localhost', ''))
    try {
      const signed = { ...headers, 'x-url': href }
      const reply = stub.answer({ method, path, query, headers: signed, body }, zones, now())
      return { headers: { 'content-type': 'application/json' }, ...reply }
    } catch (error) {
      if (error instanceof Refusal) return refuse(error)
      throw error
    }
  })
  return served
}
