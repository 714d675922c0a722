/**
 * @module The webhook endpoint of the benchmark, in its own process: an HTTPS server that accepts every request and
 * records the ids of its events, and the DNS server that resolves its name.
 */
import type { Answer } from 'dns-packet'
import type { Clock } from '#platform/clock.ts'
import { startBenchDns } from './dns.ts'

export const HOOK_HOST = 'hooks.bench.test'

export interface HookReceiver {
  readonly port: number
  readonly dnsPort: number
  counted(): HookCount
  /** Clears the recorded events. */
  reset(): void
}

export interface HookCount {
  /** Distinct events. */
  readonly events: number
  /** Requests, including repeated ones. */
  readonly requests: number
  /** Time from the first request to the last. */
  readonly seconds: number
}

/** @param certificate PEM files */
export async function startHookReceiver(
  certificate: { readonly certFile: string; readonly keyFile: string },
  clock: Clock,
): Promise<HookReceiver> {
  let events = new Set<string>()
  let requests = 0
  let firstMs = 0
  let lastMs = 0
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert: Bun.file(certificate.certFile), key: Bun.file(certificate.keyFile) },
    async fetch(request) {
      const { event_id: id } = (await request.json()) as { event_id: string }
      lastMs = clock.monotonicMs()
      if (requests++ === 0) firstMs = lastMs
      events.add(id)
      return new Response()
    },
  })
  const dnsPort = await startBenchDns(answerHookDns)
  return {
    port: server.port ?? 0,
    dnsPort,
    counted: () => ({ events: events.size, requests, seconds: (lastMs - firstMs) / 1000 }),
    reset() {
      events = new Set()
      requests = 0
    },
  }
}

/** Answers for the endpoint's name, for `startBenchDns`. */
export const answerHookDns = (name: string, type: string): Answer[] =>
  name === HOOK_HOST && type === 'A' ? [{ name, type, ttl: 300, data: '127.0.0.1' }] : []
