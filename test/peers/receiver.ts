/**
 * @module The receiving site of the comparison, in its own process: the sink and the DNS server of `tassis bench`. Its
 * first line of output has the ports. Each input line is a number of messages; the reply follows when they have
 * arrived. With the argument `tls` it offers STARTTLS.
 */
import { createInterface } from 'node:readline'
import { startBenchDns } from '#bench/dns.ts'
import { answerReceiverDns } from '#bench/receiver.ts'
import { startBenchSink } from '#bench/sink.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'

const LOOK_INTERVAL_MS = 5

export interface ReceiverPorts {
  readonly smtpPort: number
  readonly dnsPort: number
}

export interface ReceiverCounts {
  readonly taken: number
  readonly encrypted: number
  readonly signed: number
}

if (import.meta.main) {
  const hasTls = process.argv[2] === 'tls'
  const sink = await startBenchSink(hasTls ? createCertificateAuthority().issue(['mx.bench.test']) : undefined)
  const ports: ReceiverPorts = { smtpPort: sink.port, dnsPort: await startBenchDns(answerReceiverDns) }
  console.log(JSON.stringify(ports))
  for await (const line of createInterface({ input: process.stdin })) {
    while (sink.count() < Number(line)) await Bun.sleep(LOOK_INTERVAL_MS)
    const counts: ReceiverCounts = {
      taken: sink.count(),
      encrypted: sink.countEncrypted(),
      signed: sink.countSigned(),
    }
    console.log(JSON.stringify(counts))
  }
  process.exit(0)
}
