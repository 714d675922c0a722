/**
 * @module Load balancers in front of a cluster: Debian's Caddy and HAProxy with the configuration from contrib, changed
 * only in ports, addresses and certificates, before stubs of nodes of which one is ready.
 */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { eventually } from '#test/support/app.ts'
import { isProxyAvailable, type ReverseProxy, startCaddy, startHaproxy } from '#test/support/proxies.ts'

const HOST = 'mail.example.com'
/** The longest time between two checks in both configurations. */
const CHECK_INTERVAL_MS = 500
const FAILOVER_LIMIT_MS = 2000

const readContrib = (path: string): string => readFileSync(`${import.meta.dir}/../../contrib/${path}`, 'utf8')

interface Node extends AsyncDisposable {
  readonly address: string
  isReady: boolean
  /** Checks since it was last counted from 0. */
  checks: number
}

/** A node that says its name, and is asked for anything but its readiness only while it leads. */
function startNode(name: string): Node {
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => {
      const isCheck = new URL(request.url).pathname === '/readyz'
      if (isCheck) node.checks++
      return new Response(isCheck ? '' : `${name} ${request.headers.get('x-forwarded-for')}`, {
        status: node.isReady ? 200 : 503,
      })
    },
  })
  const node: Node = {
    address: `127.0.0.1:${server.port}`,
    isReady: false,
    checks: 0,
    [Symbol.asyncDispose]: () => server.stop(true),
  }
  return node
}

/** The configuration with these nodes in place of its three. */
const withNodes = (config: string, nodes: readonly Node[]): string =>
  nodes
    .reduce((text, { address }, i) => text.replace(`10.0.0.${i + 1}:8080`, address), config)
    .replace(/ 10\.0\.0\.3:8080| *\tserver c 10\.0\.0\.3:8080\n/, '')

/** What a client gets; the reason when it gets nothing. */
const get = async ({ port, caPem }: ReverseProxy): Promise<string> => {
  const response = await fetch(`https://127.0.0.1:${port}/v1/emails`, {
    headers: { host: HOST, 'x-forwarded-for': '198.51.100.7' },
    tls: { ca: caPem, serverName: HOST },
  }).catch((error: unknown) => error)
  if (!(response instanceof Response)) return String(response)
  const text = await response.text()
  return response.ok ? text : `${response.status} ${text}`
}

const FRONTS = [
  [
    'caddy',
    (nodes: readonly Node[]) => startCaddy(`{\n}\n${withNodes(readContrib('caddy/Caddyfile.cluster'), nodes)}`, HOST),
  ],
  ['haproxy', (nodes: readonly Node[]) => startHaproxy(withNodes(readContrib('haproxy/haproxy.cfg'), nodes), [HOST])],
] as const

test.each(FRONTS.filter(([program]) => isProxyAvailable(program)))(
  '%s sends requests to the node that is ready, and follows it in under 2 s',
  async (_, start) => {
    await using a = startNode('a')
    await using b = startNode('b')
    a.isReady = true
    await using proxy = await start([a, b])
    const reaches = (name: string) => eventually(async () => (await get(proxy)) === `${name} 127.0.0.1`)
    await eventually(() => a.checks > 0 && b.checks > 0)
    await reaches('a')
    const steps: [from: Node, to: Node, name: string][] = [
      [a, b, 'b'],
      [b, a, 'a'],
    ]
    for (const [from, to, name] of steps) {
      from.isReady = false
      to.isReady = true
      to.checks = 0
      await reaches(name)
      // Counted in checks, so that a busy machine does not matter.
      expect((to.checks + 1) * CHECK_INTERVAL_MS).toBeLessThanOrEqual(FAILOVER_LIMIT_MS)
    }
    // The machine of the leader dies, and another node is ready.
    await a[Symbol.asyncDispose]()
    b.isReady = true
    await reaches('b')
  },
)
