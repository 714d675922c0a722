/**
 * @module Finds the program that listens on a port, from /proc, and how to stop it. For the error of a port in use, so it
 * may take some milliseconds. Without the right to see the files of others, mail servers are known by their names.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { attempt } from '#platform/attempt.ts'

/** Mail servers and their units, by name and command line. */
const MAIL_SERVERS: readonly (readonly [RegExp, string])[] = [
  [/^exim/, 'exim4'],
  [/^master\b.*postfix/, 'postfix'],
  [/^sendmail/, 'sendmail'],
  [/^smtpd\b/, 'opensmtpd'],
]
/** They hold the port for the programs of containers. */
const CONTAINER_PROXY = /^(?:docker-proxy|rootlessport|pasta|conmon)/
const LISTENING = '0A'

export interface PortHolder {
  /** Such as `: exim4 (pid 812)`; empty when this process cannot find it. */
  readonly who: string
  /** How to stop it: the rest of a sentence. */
  readonly remedy: string
}

/** Finds what listens on a port at an address, or at all addresses of the machine. */
export function findPortHolder({ host, port }: { readonly host: string; readonly port: number }): PortHolder {
  const sockets = listSockets(port, host)
  const pids = readNames('/proc').filter((name) => /^\d+$/.test(name))
  const holder = pids.find((pid) =>
    readNames(`/proc/${pid}/fd`).some((fd) => sockets.has(readLink(`/proc/${pid}/fd/${fd}`))),
  )
  const isMailPort = [25, 465, 587].includes(port)
  const pid = holder ?? (isMailPort ? pids.find((id) => findMailServer(id) !== undefined) : undefined)
  if (pid === undefined) return { who: '', remedy: `see which with \`ss -ltnp sport = :${port}\` as root, and stop it` }
  const name = readText(`/proc/${pid}/comm`).trim()
  return {
    who: `: ${holder === undefined ? 'probably ' : ''}${name} (pid ${pid})`,
    remedy: `stop it (\`${findCommand(pid, name, port)}\`)`,
  }
}

/** The command that stops the program, or shows what it holds the port for. */
function findCommand(pid: string, name: string, port: number): string {
  if (CONTAINER_PROXY.test(name)) return `docker ps --filter publish=${port}`
  if (pid === '1') return 'systemctl list-sockets'
  const unit = findMailServer(pid) ?? SYSTEM_UNIT.exec(readText(`/proc/${pid}/cgroup`))?.[1]
  if (unit === undefined) return `kill ${pid}`
  return `systemctl ${unit.startsWith('tassis') ? 'stop' : 'disable --now'} ${unit}`
}

/** The unit of a process of the system, without its instance; in a container there is none. */
const SYSTEM_UNIT = /^0::\/system\.slice\/(?:[\w.@-]+\.slice\/)*([\w.-]+)(?:@[\w.-]*)?\.service$/m

function findMailServer(pid: string): string | undefined {
  const text = `${readText(`/proc/${pid}/comm`).trim()} ${readText(`/proc/${pid}/cmdline`).replaceAll('\0', ' ')}`
  return MAIL_SERVERS.find(([form]) => form.test(text))?.[1]
}

/** The links of the sockets that listen on the port at this address or at all addresses. */
function listSockets(port: number, host: string): ReadonlySet<string> {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const octets = host.split('.').map(Number)
  // The kernel shows the octets of IPv4 in the order of the machine, also at the end of a mapped address.
  const address = octets.length === 4 ? Buffer.from(octets.toReversed()).toString('hex').toUpperCase() : undefined
  const rows = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((path) => readText(path).split('\n'))
  const found = rows
    .map((row) => row.trim().split(/\s+/))
    .filter(([, local = '', , state]) => state === LISTENING && local.endsWith(suffix))
    .filter(([, local = '']) => {
      const ip = local.slice(0, -suffix.length)
      return address === undefined || /^0+$/.test(address) || /^0+$/.test(ip) || ip.endsWith(address)
    })
  return new Set(found.map((fields) => `socket:[${fields[9]}]`))
}

const readText = (path: string): string => attempt(() => readFileSync(path, 'utf8')) ?? ''
const readNames = (path: string): readonly string[] => attempt(() => readdirSync(path)) ?? []
const readLink = (path: string): string => attempt(() => readlinkSync(path)) ?? ''
