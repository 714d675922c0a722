/** @module An HTTPS server on 127.0.0.1 that takes webhooks and counts them. */

import { waitUntil } from '#bench/processes.ts'
import { RECEIVER_HOST } from '#bench/receiver.ts'
import { createSelfSigned } from '#platform/net/self-signed.ts'
import { systemClock } from '#platform/time/clock.ts'

export const createReceiverCertificate = () =>
  createSelfSigned({ hostname: RECEIVER_HOST, now: systemClock.now(), validDays: 2 })

/** @param certFile where the certificate is written, for TASSIS_EXTRA_CA_FILE of the service */
export async function startHooks(certFile: string) {
  const certificate = await createReceiverCertificate()
  await Bun.write(certFile, certificate.cert)
  let events = new Set<string>()
  let requests = 0
  let [firstMs, lastMs] = [0, 0]
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: certificate,
    async fetch(request) {
      const { event_id: id } = (await request.json()) as { event_id: string }
      lastMs = systemClock.monotonicMs()
      if (requests++ === 0) firstMs = lastMs
      events.add(id)
      return new Response()
    },
  })
  return {
    url: `https://${RECEIVER_HOST}:${server.port}/hook`,
    countRequests: () => requests,
    /** Resolves with the time from the first to the last when at least so many distinct events are here. */
    async waitFor(wanted: number): Promise<{ readonly seconds: number }> {
      await waitUntil(
        () => events.size >= wanted,
        () => `Only ${events.size} events arrived.`,
      )
      events = new Set()
      requests = 0
      return { seconds: (lastMs - firstMs) / 1000 }
    },
    async [Symbol.asyncDispose]() {
      await server.stop(true)
    },
  }
}
