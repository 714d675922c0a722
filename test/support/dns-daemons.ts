/**
 * @module Debian's BIND and Knot on free ports of 127.0.0.1, with one zone and keys for changes by RFC 2136. `full` may
 * change everything, `none` may only query.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { type Answer, decode, encode } from 'dns-packet'
import { eventually } from './app.ts'
import { createFolder } from './folder.ts'
import { findFreePort } from './free-port.ts'

export type DaemonName = 'bind' | 'knot'

/** The secret of both keys. */
export const SECRET = Buffer.from('a secret of tests, 32 bytes long').toString('base64')

export interface DnsDaemon extends AsyncDisposable {
  readonly address: string
  readonly port: number
  /** All records but the SOA and those of DNSSEC, sorted: `name type value`. */
  dump(): Promise<string[]>
  log(): string
}

export interface DaemonOptions {
  readonly zone: string
  /** Lines of the zone file, beside SOA and NS. */
  readonly records?: readonly string[]
  readonly isSigned?: boolean
  /** The address of the name server of the zone, where Knot also listens on port 53; default 127.0.0.1. */
  readonly nsAddress?: string
}

/** Whether tests with these servers can run; they must where `CI` or `REQUIRE_DNS_DAEMONS` is `true`. */
export function areDaemonsAvailable(): boolean {
  const { CI, REQUIRE_DNS_DAEMONS } = process.env
  const isInstalled = ['/usr/sbin/named', '/usr/sbin/knotd'].every((path) => Bun.which(path) !== null)
  if (!isInstalled) console.warn('Tests with BIND and Knot are skipped: the packages bind9 and knot are not installed')
  return isInstalled || CI === 'true' || REQUIRE_DNS_DAEMONS === 'true'
}

export async function startDaemon(name: DaemonName, options: DaemonOptions): Promise<DnsDaemon> {
  const folder = createFolder()
  const port = await findFreePort()
  const { zone, records = [], nsAddress = '127.0.0.1' } = options
  const lines = ['$TTL 300', `@ SOA ns1 admin 1 3600 600 86400 60`, '@ NS ns1', `ns1 A ${nsAddress}`, ...records]
  writeFileSync(folder.pathOf(zone), `${lines.join('\n')}\n`)
  mkdirSync(folder.pathOf('keys'))
  const config = (name === 'bind' ? formatNamedConf : formatKnotConf)(folder.path, port, options)
  writeFileSync(folder.pathOf('conf'), config)
  const command = name === 'bind' ? ['/usr/sbin/named', '-g', '-n', '1', '-c'] : ['/usr/sbin/knotd', '-c']
  const child = Bun.spawn([...command, folder.pathOf('conf')], { cwd: folder.path, stdout: 'pipe', stderr: 'pipe' })
  let log = ''
  const follow = async (stream: ReadableStream<Uint8Array>) => {
    for await (const chunk of stream) log += Buffer.from(chunk).toString()
  }
  void follow(child.stdout)
  void follow(child.stderr)
  const daemon: DnsDaemon = {
    address: `127.0.0.1:${port}`,
    port,
    dump: () => dumpZone(port, zone),
    log: () => log,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await child.exited
      folder[Symbol.dispose]()
    },
  }
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(`${name} ended: ${log}`)
    return (await daemon.dump().catch(() => [])).length > 0
  }).catch(async (error) => {
    await daemon[Symbol.asyncDispose]()
    throw error
  })
  return daemon
}

const formatNamedConf = (folder: string, port: number, { zone, isSigned }: DaemonOptions): string => `
options {
  directory "${folder}"; pid-file none; session-keyfile "${folder}/session.key"; managed-keys-directory "${folder}";
  listen-on port ${port} { 127.0.0.1; }; listen-on-v6 { none; }; recursion no; dnssec-validation no;
};
controls { };
key full { algorithm hmac-sha256; secret "${SECRET}"; };
key none { algorithm hmac-sha256; secret "${SECRET}"; };
key wide { algorithm hmac-sha512; secret "${SECRET}"; };
zone "${zone}" {
  type primary; file "${zone}"; key-directory "${folder}/keys"; allow-transfer { 127.0.0.1; };
  ${isSigned ? 'dnssec-policy default; inline-signing yes;' : ''}
  update-policy { grant full zonesub TXT MX CNAME; grant wide zonesub TXT MX CNAME; };
};
`

const formatKnotConf = (folder: string, port: number, { zone, isSigned, nsAddress }: DaemonOptions): string => `
server:
  rundir: ${folder}
  listen: [127.0.0.1@${port}${nsAddress ? `, ${nsAddress}@53` : ''}]
database:
  storage: ${folder}/keys
log:
- target: stderr
  any: info
key:
${['full', 'none', 'wide'].map((id) => `- id: ${id}\n  algorithm: ${id === 'wide' ? 'hmac-sha512' : 'hmac-sha256'}\n  secret: ${SECRET}`).join('\n')}
acl:
- id: changes
  key: [full, wide]
  action: update
  update-type: [TXT, MX, CNAME]
- id: copies
  address: 127.0.0.1
  action: transfer
zone:
- domain: ${zone}
  storage: ${folder}
  file: ${zone}
  zonefile-sync: -1
  dnssec-signing: ${isSigned ? 'on' : 'off'}
  acl: [changes, copies]
`

const DNSSEC = ['RRSIG', 'NSEC', 'NSEC3', 'NSEC3PARAM', 'DNSKEY', 'CDS', 'CDNSKEY', 'SOA', 'UNKNOWN_65534']

/** The whole zone by AXFR (RFC 5936). */
async function dumpZone(port: number, zone: string): Promise<string[]> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer[]>()
  const socket = connect(port, '127.0.0.1')
  const query = encode({ type: 'query', id: 7, questions: [{ name: zone, type: 'AXFR' }] })
  let received = Buffer.alloc(0)
  const found: Answer[] = []
  socket.on('error', reject)
  socket.on('close', () => resolve([]))
  socket.on('connect', () => socket.write(Buffer.concat([Buffer.from([query.length >> 8, query.length & 255]), query])))
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
    for (let size = 0; received.length >= 2; received = received.subarray(2 + size)) {
      size = received.readUInt16BE(0)
      if (received.length < 2 + size) return
      found.push(...(decode(received.subarray(2, 2 + size)).answers ?? []))
    }
    if (found.filter(({ type }) => type === 'SOA').length >= 2) resolve(found)
  })
  const records = await promise.finally(() => socket.destroy())
  return records
    .filter(({ type }) => !DNSSEC.includes(type))
    .map((record) => `${record.name} ${record.type} ${formatData(record)}`)
    .sort()
}

function formatData(record: Answer): string {
  if (record.type === 'TXT')
    return [record.data]
      .flat()
      .map((one) => JSON.stringify(String(one)))
      .join(' ')
  if (record.type === 'MX') return `${record.data.preference} ${record.data.exchange}`
  return 'data' in record ? String(record.data) : ''
}
