/**
 * @module An ACME server (RFC 8555) on 127.0.0.1 for tests of faults: it checks no signature and validates no host, and
 * a test can replace any of its responses. Pebble (pebble.ts) is the real one.
 */
import 'reflect-metadata'
import { createPublicKey } from 'node:crypto'
import { Pkcs10CertificateRequest } from '@peculiar/x509'
import { type CertificateAuthority, type CertificateOptions, createCertificateAuthority } from './certificates.ts'

/** A resource of the server. */
export type AcmeResource =
  | 'directory'
  | 'nonce'
  | 'account'
  | 'order'
  | 'authorization'
  | 'challenge'
  | 'finalize'
  | 'orderState'
  | 'certificate'

export interface AcmeStub extends AsyncDisposable {
  readonly directoryUrl: string
  /** Issues its certificates, and that of its own HTTPS. */
  readonly authority: CertificateAuthority
  /** Resources asked for, in order. */
  readonly requests: AcmeResource[]
  /** Their URLs. */
  readonly urls: string[]
  /** Payloads of signed requests, in order. */
  readonly payloads: Readonly<Record<string, unknown>>[]
  /** Replaces the responses of a resource; undefined: as usual. */
  readonly faults: Partial<Record<AcmeResource, (usual: () => Response) => Response | Promise<Response> | undefined>>
  /** What it issues; default: a certificate for the name and key of the request. */
  issue: (names: readonly string[], options: CertificateOptions) => string
}

const TOKEN = 'a-token-of-the-stub-0123456789'

/** Starts a server that serves one order at a time. @param now the time of its certificates, in ms */
export async function startAcmeStub(now: () => number): Promise<AcmeStub> {
  const authority = createCertificateAuthority('ACME stub')
  const requests: AcmeResource[] = []
  const urls: string[] = []
  const payloads: Record<string, unknown>[] = []
  let host = ''
  let chain = ''
  let isValidated = false
  let nonces = 0
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: authority.issue(['127.0.0.1']),
    async fetch(request) {
      const resource = new URL(request.url).pathname.split('/')[1] as AcmeResource
      requests.push(resource)
      urls.push(request.url)
      const payload = request.method === 'POST' ? readPayload(await request.text()) : {}
      if (request.method === 'POST') payloads.push(payload)
      const usual = () => respond(resource, payload)
      return (await stub.faults[resource]?.(usual)) ?? usual()
    },
  })
  const url = (path: string) => `https://127.0.0.1:${server.port}/${path}`
  const reply = (body: object, status = 200, headers: Record<string, string> = {}) =>
    Response.json(body, { status, headers: { 'replay-nonce': `nonce-${++nonces}`, ...headers } })

  function respond(resource: AcmeResource, payload: Record<string, unknown>): Response {
    const order = () => ({
      status: chain === '' ? (isValidated ? 'ready' : 'pending') : 'valid',
      authorizations: [url('authorization')],
      finalize: url('finalize'),
      ...(chain !== '' && { certificate: url('certificate') }),
    })
    switch (resource) {
      case 'directory':
        return reply({
          newNonce: url('nonce'),
          newAccount: url('account'),
          newOrder: url('order'),
        })
      case 'account':
        return reply({ status: 'valid' }, 201, { location: url('account/1') })
      case 'order': {
        const [identifier] = payload['identifiers'] as { value: string }[]
        host = identifier?.value ?? ''
        chain = ''
        isValidated = false
        return reply(order(), 201, { location: url('orderState') })
      }
      case 'authorization': {
        const challenges = ['http-01', 'tls-alpn-01'].map((type) => ({ type, token: TOKEN, url: url('challenge') }))
        return reply({
          status: isValidated ? 'valid' : 'pending',
          identifier: { type: 'dns', value: host },
          challenges,
        })
      }
      case 'challenge':
        isValidated = true
        return reply({ status: 'processing' })
      case 'finalize': {
        const csr = new Pkcs10CertificateRequest(Buffer.from(String(payload['csr']), 'base64url'))
        const publicKey = createPublicKey({ key: Buffer.from(csr.publicKey.rawData), format: 'der', type: 'spki' })
        chain = stub.issue([host], {
          publicKey,
          notBefore: new Date(now()),
          notAfter: new Date(now() + 90 * 86_400_000),
        })
        return reply(order())
      }
      case 'orderState':
        return reply(order())
      case 'certificate':
        return new Response(chain, { headers: { 'replay-nonce': `nonce-${++nonces}` } })
      default:
        return reply({})
    }
  }

  const stub: AcmeStub = {
    directoryUrl: url('directory'),
    authority,
    requests,
    urls,
    payloads,
    faults: {},
    issue: (names, options) => authority.issue(names, options).cert,
    [Symbol.asyncDispose]: () => server.stop(true),
  }
  return stub
}

/** The response of an ACME server that refuses (RFC 8555 §6.7). */
export const problem = (status: number, type: string, detail: string, headers: Record<string, string> = {}): Response =>
  Response.json(
    { type: `urn:ietf:params:acme:error:${type}`, detail },
    { status, headers: { 'content-type': 'application/problem+json', 'replay-nonce': 'nonce-after', ...headers } },
  )

function readPayload(body: string): Record<string, unknown> {
  const { payload } = JSON.parse(body) as { payload: string }
  return payload === '' ? {} : (JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>)
}
