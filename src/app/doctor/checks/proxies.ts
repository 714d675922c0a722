/** @module Checks of the proxies of outgoing addresses: that each works for us, has its address, and works for nobody else. */
import { once } from 'node:events'
import { type AddressInfo, createServer, isIPv6, type Server } from 'node:net'
import { listProxies, type ProxyServer } from '#platform/settings/outbound-source.ts'
import { seconds } from '#platform/units.ts'
import { isLoopback, isLoopbackName, isSpecialAddress } from '#protocols/dns/special-addresses.ts'
import { connectSmtp } from '#protocols/smtp/connect.ts'
import { type DoctorContext, failure, type NewFinding, ok, onNetwork, skipped, warning } from '../context.ts'
import { findDestination } from './network.ts'

const MAX_PROXIES = 8
/** So that all steps together end in the time of a check. */
const TIMEOUTS = { connectMs: seconds(4), greetingMs: seconds(3), ehloMs: seconds(3) }
const ADDRESS_LITERAL = /\[(?:IPv6:)?([0-9a-f:.]{2,45})\]/i

type Target = readonly [host: string, address: string, port: number]

export const checkProxies = onNetwork(async (context) => {
  const { allowPrivateNetworks, outboundIps } = context.config
  const proxies = [...listProxies(outboundIps)].slice(0, MAX_PROXIES)
  if (proxies.length === 0) return skipped('Not checked: no outgoing address has a proxy.')
  const found = proxies.map(([ip, proxy]) =>
    allowPrivateNetworks === false || isLoopbackName(proxy.host)
      ? checkProxy(context, ip, proxy)
      : [skipped('Not checked in a test.', ip)],
  )
  return (await Promise.all(found)).flat()
})

async function checkProxy(context: DoctorContext, ip: string, proxy: ProxyServer): Promise<NewFinding[]> {
  const mirror = isLoopback(ip) ? await startMirror(ip) : undefined
  try {
    const targets = mirror ? [mirror.target] : await findTargets(context, ip)
    const name = `The proxy of ${ip} (${proxy.host}, port ${proxy.port})`
    if (targets.length === 0) return [skipped(`No mail host could be looked up to try the proxy of ${ip} with.`, ip)]
    const dialled = await Promise.all(targets.map((target) => dial(context, ip, proxy, target)))
    const reached = dialled.find(({ seenIp }) => seenIp) ?? dialled.find(({ problem }) => !problem)
    if (reached) return [describe(ip, name, reached.seenIp), await checkAccess(context, ip, proxy, reached.target)]
    const dead = dialled.find(({ isDead }) => isDead)
    const reasons = dialled.map(({ target: [host, address], problem }) => `${host} (${address}): it ${problem}`)
    const fix = dead
      ? 'Start it, let firewalls pass this machine, and correct its host, port, user and password in TASSIS_OUTBOUND_IPS.'
      : `Allow connections to port ${targets[0]?.[2]} in its rules, and ask the provider of its machine to open outgoing TCP port 25.`
    const problem = dead?.problem ?? `connects to no mail host (${reasons.join('; ')})`
    return [failure(`${name} ${problem}, so no mail leaves from ${ip}.`, fix, ip)]
  } finally {
    mirror?.server.close()
  }
}

/** A server on this machine that tells each client its address, for tests and trials. */
async function startMirror(ip: string): Promise<{ readonly target: Target; readonly server: Server }> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', () => socket.write(`250 [${socket.remoteAddress}]\r\n`))
    socket.write('220 mirror\r\n')
  })
  const address = isIPv6(ip) ? '::1' : '127.0.0.1'
  await once(server.listen(0, address), 'listening')
  return { target: ['localhost', address, (server.address() as AddressInfo).port], server }
}

async function findTargets(context: DoctorContext, ip: string): Promise<Target[]> {
  const { doctorSmtpDomains, smtpPort } = context.config
  const found = await Promise.all(doctorSmtpDomains.map((domain) => findDestination(context, domain)))
  return found.flatMap(({ domain, addresses }): Target[] => {
    const address = addresses.find((each) => isIPv6(each) === isIPv6(ip))
    return address === undefined ? [] : [[domain, address, smtpPort]]
  })
}

/**
 * Opens a session and ends it. `problem`: why the proxy makes no connection. `seenIp`: where the server sees the
 * connection come from, as large receivers say in their reply to EHLO.
 */
async function dial({ config, clock, signal }: DoctorContext, ip: string, proxy: ProxyServer, target: Target) {
  const [host, address, port] = target
  let isGreeted = false
  let seenIp: string | undefined
  const result = await connectSmtp({
    ...{ host, address, port, proxy, clock, timeouts: TIMEOUTS },
    ehloName: config.hostname,
    tls: 'never',
    verifyCertificate: false,
    abort: { signal, failure: { kind: 'closed', message: 'was asked for nothing more' } },
    transcript: (direction, line) => {
      if (isGreeted) seenIp ??= ADDRESS_LITERAL.exec(line)?.[1]
      isGreeted ||= direction === 'client'
    },
  })
  if (result.kind === 'connected') void result.client.quit()
  // A server may greet with its own address instead.
  if (seenIp === address && !isLoopback(ip)) seenIp = undefined
  const phase = result.kind === 'failed' ? result.phase : undefined
  const isMade = phase !== 'proxy' && phase !== 'request' && phase !== 'connect'
  const problem = result.kind === 'failed' && !isMade ? result.failure.message : undefined
  return { target, seenIp, problem, isDead: phase === 'proxy', isReceiverAsked: isMade || phase === 'connect' }
}

function describe(ip: string, name: string, seenIp: string | undefined): NewFinding {
  if (seenIp === undefined)
    return ok(`${name} works; from which address it connects is unknown: no server said it.`, ip)
  const [seen, own] = [seenIp, ip].map((each) => (isIPv6(each) ? new URL(`http://[${each}]`).hostname : each))
  if (seen === own) return ok(`${name} works, and connects from ${ip}.`, ip)
  return failure(
    `${name} connects from ${seenIp}, so mail does not leave from ${ip}.`,
    `Bind its connections to ${ip} (microsocks: -b ${ip}; Dante: external: ${ip}), or name ${seenIp} in TASSIS_OUTBOUND_IPS.`,
    ip,
  )
}

/** Whether it works without its login, as it would then for everybody. */
async function checkAccess(
  context: DoctorContext,
  ip: string,
  proxy: ProxyServer,
  target: Target,
): Promise<NewFinding> {
  const subject = `${ip} access`
  if (!proxy.login) {
    const unseen = `The proxy of ${ip} has no login. Whom it serves cannot be seen from here`
    return isSpecialAddress(proxy.host) || isLoopbackName(proxy.host)
      ? skipped(`${unseen}; its address is a private one.`, subject)
      : warning(
          `${unseen}; if that is everybody, they send spam from ${ip}.`,
          'Limit it to the address of this machine, and give it a user and a password.',
          subject,
        )
  }
  const { isReceiverAsked } = await dial(context, ip, { ...proxy, login: undefined }, target)
  return isReceiverAsked
    ? failure(
        `The proxy of ${ip} connects without its login, so anybody who finds it can send spam from ${ip}.`,
        'Let it demand the login of everybody (microsocks: -u and -P, without -1; Dante: socksmethod: username).',
        subject,
      )
    : ok(`The proxy of ${ip} refuses connections without its login.`, subject)
}
