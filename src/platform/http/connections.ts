/**
 * @module Closes connections that are idle, by their descriptors: Bun's HTTP server accepts as many as come, and closes
 * those that have sent nothing only after ten seconds. Linux only.
 */
import { dlopen, ptr } from 'bun:ffi'
import { listDescriptors } from '../descriptors.ts'
import { networkOf } from '../network.ts'
import { perOwner } from '../per-owner.ts'

interface Connection {
  readonly descriptor: number
  readonly network: string
  /** Since it last sent anything, or received something. */
  readonly idleMs: number
}

export interface IdleConnections {
  /** Ports of this process whose connections are meant. */
  readonly ports: ReadonlySet<number>
  /** Whether a connection must stay, by the port of its peer. */
  readonly isBusy: (peerPort: number) => boolean
  /** The client behind a connection from this process; undefined: its peer is the client. */
  readonly clientOf: (peerPort: number) => string | undefined
}

const SYMBOLS = {
  getsockname: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
  getpeername: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
  getsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'ptr'], returns: 'i32' },
  setsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'u32'], returns: 'i32' },
  shutdown: { args: ['i32', 'i32'], returns: 'i32' },
} as const

/** By soname: the library that the process has loaded already. Undefined where there is none. */
const openLibrary = perOwner(({ platform }: typeof process) => {
  try {
    return platform === 'linux' ? dlopen('libc.so.6', SYMBOLS).symbols : undefined
  } catch {
    return undefined
  }
})

/**
 * Closes idle connections: of the network that has most, the one that has been idle longest, and so on.
 * @returns how many it closed
 */
export function closeIdleConnections(count: number, which: IdleConnections): number {
  const library = openLibrary(process)
  if (!library) return 0
  const connections = listDescriptors()
    .flatMap((descriptor) => readConnection(descriptor, which) ?? [])
    .sort((a, b) => a.idleMs - b.idleMs)
  const found = new Map<string, number>()
  const ranked = connections.map(({ descriptor, network }) => {
    const rank = found.get(network) ?? 0
    found.set(network, rank + 1)
    return { descriptor, rank }
  })
  // The sort keeps the order within a rank.
  const closed = ranked
    .reverse()
    .sort((a, b) => b.rank - a.rank)
    .slice(0, count)
  // The server then sees the end of the connection, and closes the descriptor itself.
  for (const { descriptor } of closed) library.shutdown(descriptor, SHUT_RDWR)
  return closed.length
}

/**
 * Stops or resumes to accept connections at ports of this process. Meanwhile the system ignores those that begin, so
 * that clients try again after a second; those that wait to be accepted are not concerned.
 */
export function setAccepting(isAccepting: boolean, ports: ReadonlySet<number>): void {
  const library = openLibrary(process)
  if (!library) return
  // A socket filter of one instruction, which drops every packet: BPF_RET, 0.
  const filter = new Uint32Array([0x06, 0])
  const program = new BigUint64Array([1n, BigInt(ptr(filter))])
  for (const descriptor of listDescriptors()) {
    if (!ports.has(readPort('getsockname', descriptor) ?? 0) || readPort('getpeername', descriptor) !== undefined)
      continue
    library.setsockopt(descriptor, SOL_SOCKET, isAccepting ? SO_DETACH_FILTER : SO_ATTACH_FILTER, ptr(program), 16)
  }
}

const [SOL_SOCKET, SO_ATTACH_FILTER, SO_DETACH_FILTER] = [1, 26, 27]
const SHUT_RDWR = 2
const IPPROTO_TCP = 6
const TCP_INFO = 11
/** Where struct tcp_info has tcpi_last_data_sent and tcpi_last_data_recv. */
const [SENT_AT, RECEIVED_AT] = [44, 52]
const AF_INET6 = 10
const address = new Uint8Array(28)
const info = new Uint32Array(26)
const length = new Uint32Array(1)

/** Undefined for whatever is not one of the connections. */
function readConnection(descriptor: number, { ports, isBusy, clientOf }: IdleConnections): Connection | undefined {
  if (!ports.has(readPort('getsockname', descriptor) ?? 0)) return undefined
  const peerPort = readPort('getpeername', descriptor)
  if (peerPort === undefined || isBusy(peerPort)) return undefined
  length[0] = info.byteLength
  if (openLibrary(process)?.getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, ptr(info), ptr(length)) !== 0)
    return undefined
  return {
    descriptor,
    network: networkOf(clientOf(peerPort) ?? formatAddress()),
    idleMs: Math.min(info[SENT_AT / 4] ?? 0, info[RECEIVED_AT / 4] ?? 0),
  }
}

/** The port of one end of a connection; undefined for whatever is none. */
function readPort(name: 'getsockname' | 'getpeername', descriptor: number): number | undefined {
  length[0] = address.length
  const isRead = openLibrary(process)?.[name](descriptor, ptr(address), ptr(length)) === 0
  return isRead ? Buffer.from(address.buffer).readUInt16BE(2) : undefined
}

/** The address that was read last. */
function formatAddress(): string {
  if (address[0] !== AF_INET6) return address.slice(4, 8).join('.')
  const groups = Array.from({ length: 8 }, (_, i) =>
    Buffer.from(address.buffer)
      .readUInt16BE(8 + 2 * i)
      .toString(16),
  )
  const isMapped = groups.slice(0, 6).join() === '0,0,0,0,0,ffff'
  return isMapped ? address.slice(20, 24).join('.') : groups.join(':')
}
