/** @module Tests of contrib: its formats, and that the program accepts every setting that the files have. */
import { expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '#app/settings.ts'

const CONTRIB = join(import.meta.dir, '../contrib')
const read = (path: string): string => readFileSync(join(CONTRIB, path), 'utf8')

interface Compose {
  readonly services: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly [key: string]: unknown
}
const readCompose = (path: string): Compose => Bun.YAML.parse(read(path)) as Compose

/** What the platforms put in place of variables. */
const VALUES: Readonly<Record<string, string>> = {
  TASSIS_HOSTNAME: 'mail.example.com',
  TASSIS_PUBLIC_URL: 'https://mail.example.com',
  SERVICE_URL_TASSIS: 'https://mail.example.com',
  TASSIS_TRUSTED_PROXIES: '10.0.0.0/8,172.16.0.0/12,192.168.0.0/16',
}
const resolveVariables = (text: string): string =>
  text
    .replaceAll(/\$\{(\w+)(?::[-?][^}]*)?\}/g, (_, name: string) => VALUES[name] ?? `no value of ${name}`)
    .replaceAll('$$cap_hostname', 'mail.example.com')
    .replaceAll('$$cap_appname.$$cap_root_domain', 'tassis.example.com')

/** Loads the settings of a file as the service would; throws when one is unknown or not allowed. */
function load(variables: Readonly<Record<string, string>>): Record<string, string> {
  const settings = Object.fromEntries(
    Object.entries(variables)
      .filter(([name]) => name.startsWith('TASSIS_'))
      .map(([name, value]) => [name, resolveVariables(value)]),
  )
  const { report } = loadConfig(settings)
  return Object.fromEntries(report.filter(({ source }) => source !== 'default').map((r) => [r.variable, r.value]))
}

const ALL = ['TASSIS_HOSTNAME', 'TASSIS_INBOUND_ADDR', 'TASSIS_PUBLIC_URL', 'TASSIS_TRUSTED_PROXIES']

test('the unit restarts the service whatever ended it and however often, but not after a wrong setting', () => {
  const [general = '', service = ''] = read('systemd/tassis.service').split('[Service]')
  expect(general).toContain('\nStartLimitIntervalSec=0\n')
  for (const line of ['Restart=always', 'RestartSec=5', 'RestartPreventExitStatus=2'])
    expect(service).toContain(`\n${line}\n`)
  const variables = [...service.matchAll(/^Environment=(.*)$/gm)].flatMap(([, line = '']) => line.split(' '))
  const settings = load(Object.fromEntries(variables.map((text) => text.split('=', 2) as [string, string])))
  const own = ['TASSIS_ACME_TERMS_AGREED', 'TASSIS_BACKUP_DIR', 'TASSIS_DATA_DIR', 'TASSIS_HTTPS_ADDR']
  const others = ALL.filter((name) => name !== 'TASSIS_TRUSTED_PROXIES')
  expect(Object.keys(settings).sort()).toEqual([...own, ...others, 'TASSIS_OPERATOR_EMAIL'].sort())
  // ProtectSystem=strict lets the service write below StateDirectory only.
  expect(settings['TASSIS_BACKUP_DIR']).toStartWith('/var/lib/tassis/')
})

test.skipIf(Bun.which('systemd-analyze') === null)('systemd finds no mistake in the unit', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-unit-'))
  try {
    const unit = join(folder, 'tassis.service')
    // The executable and its user are not on this machine.
    const text = read('systemd/tassis.service')
      .replace('/usr/local/bin/tassis serve', '/bin/true')
      .replace('User=tassis', 'User=root')
    writeFileSync(unit, text)
    const { exitCode, stderr } = Bun.spawnSync(['systemd-analyze', 'verify', '--man=no', unit])
    const ours = stderr
      .toString()
      .split('\n')
      .filter((line) => line.includes('tassis'))
    expect({ exitCode, ours }).toEqual({ exitCode: 0, ours: [] })
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('the compose files name the image, the volume, port 25 and settings that the program accepts', () => {
  for (const path of [
    'docker/compose.yaml',
    'coolify/tassis.yaml',
    'dokploy/docker-compose.yml',
    'caprover/tassis.yml',
  ]) {
    const [service = {}] = Object.values(readCompose(path).services)
    const { image, volumes, ports, environment } = service as {
      image: string
      volumes: string[]
      ports: string[]
      environment: Record<string, string> | string[]
    }
    expect([path, image !== '', volumes.length, volumes[0]?.endsWith(':/data')]).toEqual([path, true, 1, true])
    expect(ports).toContain('25:25')
    const variables = Array.isArray(environment)
      ? Object.fromEntries(
          environment.map((text) => [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)]),
        )
      : environment
    const settings = load(variables)
    expect([path, Object.keys(settings).sort()]).toEqual([path, ALL])
    expect(settings['TASSIS_PUBLIC_URL']).toStartWith('https://')
  }
})

interface Manifest {
  readonly kind: string
  readonly apiVersion: string
  readonly metadata: { readonly name: string }
  // biome-ignore lint/suspicious/noExplicitAny: the test reads fields that the kind of the manifest has
  readonly [key: string]: any
}

test('the Kubernetes manifests fit together, and have probes and settings that the program knows', () => {
  const manifests = Bun.YAML.parse(read('kubernetes/tassis.yaml')) as Manifest[]
  expect(manifests.map(({ apiVersion, kind, metadata: { name } }) => `${apiVersion} ${kind} ${name}`)).toEqual([
    'v1 Secret tassis',
    'v1 Service tassis-nodes',
    'v1 Service tassis',
    'v1 Service tassis-smtp',
    'policy/v1 PodDisruptionBudget tassis',
    'apps/v1 StatefulSet tassis',
  ])
  const find = (kind: string) => manifests.filter((manifest) => manifest.kind === kind)
  const [{ spec } = { spec: undefined }] = find('StatefulSet')
  const { labels } = spec.template.metadata
  const [container] = spec.template.spec.containers
  for (const { spec: service } of find('Service')) {
    expect(service.selector).toEqual(labels)
    for (const { targetPort } of service.ports)
      expect(container.ports.map(({ name }: never) => name)).toContain(targetPort)
  }
  // Nothing that waits for a pod to be ready would end: standbys never are.
  expect([spec.replicas, spec.podManagementPolicy, spec.updateStrategy, spec.serviceName]).toEqual([
    3,
    'Parallel',
    { type: 'OnDelete' },
    'tassis-nodes',
  ])
  for (const selector of [spec.selector, find('PodDisruptionBudget')[0]?.['spec'].selector])
    expect(selector).toEqual({ matchLabels: labels })
  expect([container.livenessProbe.httpGet, container.readinessProbe.httpGet]).toEqual([
    { path: '/healthz', port: 'http' },
    { path: '/readyz', port: 'http' },
  ])

  const secret = find('Secret')[0]?.['stringData'] as Record<string, string>
  const settings = load(
    Object.fromEntries(
      container.env.map(({ name, value, valueFrom }: Record<string, never>) => [
        name,
        value ?? secret[valueFrom?.['secretKeyRef']?.['key'] ?? ''] ?? 'tassis-0',
      ]),
    ),
  )
  expect(settings).toMatchObject({ TASSIS_NODE: 'tassis-0', TASSIS_MASTER_KEY_FILE: '/secret/master.key' })
  const portOf = (name: string) => Number(settings[name]?.split(':').at(-1))
  expect(container.ports).toEqual([
    { name: 'http', containerPort: portOf('TASSIS_HTTP_ADDR') },
    { name: 'smtp', containerPort: portOf('TASSIS_INBOUND_ADDR') },
    { name: 'metrics', containerPort: portOf('TASSIS_METRICS_ADDR') },
  ])
  const volumes = [
    ...spec.volumeClaimTemplates.map(({ metadata }: Manifest) => metadata),
    ...spec.template.spec.volumes,
  ]
  expect(container.volumeMounts.map(({ name }: never) => name).sort()).toEqual(volumes.map(({ name }) => name).sort())
  expect(container.volumeMounts).toContainEqual({ name: 'data', mountPath: settings['TASSIS_DATA_DIR'] })
})

test('the settings of a node name every PostgreSQL of the Patroni example, which loses no commit', () => {
  const lines = read('postgresql/tassis.env').match(/^#?TASSIS_\w+=.*$/gm) ?? []
  const settings = lines.map((line) =>
    load({ [line.slice(0, line.indexOf('=')).replace('#', '')]: line.slice(line.indexOf('=') + 1) }),
  )
  expect(settings.map((one) => Object.keys(one))).toEqual([['TASSIS_REPLICATE'], ['TASSIS_REPLICATE'], ['TASSIS_NODE']])
  const patroni = Bun.YAML.parse(read('postgresql/patroni.yml')) as {
    etcd3: { hosts: string[] }
    bootstrap: { dcs: { synchronous_mode: boolean; postgresql: { parameters: Record<string, unknown> } } }
  }
  const { dcs } = patroni.bootstrap
  expect([dcs.synchronous_mode, dcs.postgresql.parameters['synchronous_commit']]).toEqual([true, 'on'])
  const hosts = patroni.etcd3.hosts.map((host) => host.replace(':2379', ':5432')).join()
  expect(lines[0]).toContain(`@${hosts}/tassis?sslmode=require`)
})

test.skipIf(Bun.which('patroni') === null)('Patroni finds no mistake in its configuration', () => {
  const { stdout, stderr } = Bun.spawnSync(['patroni', '--validate-config', join(CONTRIB, 'postgresql/patroni.yml')])
  const mistakes = `${stdout}${stderr}`
    .split('\n')
    // Its addresses are not those of this machine; and rules may stand in `postgresql.pg_hba` instead.
    .filter(
      (line) => line !== '' && !/^(\w+\.listen .* is already in use|bootstrap\.pg_hba +is not defined)/.test(line),
    )
  expect(mistakes).toEqual([])
})

test('the Dokploy template routes to a service of its compose file and sets each variable there', () => {
  const { config } = Bun.TOML.parse(read('dokploy/template.toml')) as {
    config: { env: string[]; domains: { serviceName: string; port: number; host: string }[] }
  }
  expect(config.domains.map(({ serviceName, port }) => [serviceName, port])).toEqual([['tassis', 8080]])
  expect(Object.keys(readCompose('dokploy/docker-compose.yml').services)).toEqual(['tassis'])
  const used = [...read('dokploy/docker-compose.yml').matchAll(/\$\{(\w+)\}/g)].map(([, name]) => name ?? '')
  expect(config.env.map((text) => text.slice(0, text.indexOf('='))).sort()).toEqual(used.sort())
})

test('the CapRover template declares each variable that it uses', () => {
  const { caproverOneClickApp: app, captainVersion } = readCompose('caprover/tassis.yml') as unknown as {
    captainVersion: number
    caproverOneClickApp: { variables: { id: string; label: string; validRegex: string }[] }
  }
  expect(captainVersion).toBe(4)
  const builtIn = ['$$cap_appname', '$$cap_root_domain']
  const used = new Set([...read('caprover/tassis.yml').matchAll(/\$\$cap_\w+/g)].map(([name]) => name))
  expect([...used].sort()).toEqual([...builtIn, ...app.variables.map(({ id }) => id)].sort())
})
