import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import type { ClusterView } from '#features/core/app/app.ts'
import { listNewestAuditEntries } from '#features/core/audit-logs/read.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { signInAsOperator } from '#test/support/operator.ts'
import { createNode, createStatus } from './fixture.ts'

setDefaultTimeout(300_000)

let service: TestApi
let operator: Awaited<ReturnType<typeof signInAsOperator>>
beforeAll(async () => {
  service = await createTestApi()
  operator = await signInAsOperator(service)
})
afterAll(() => service[Symbol.asyncDispose]())

const asked: (string | undefined)[] = []
const setCluster = (status: ReturnType<ClusterView['status']>): void => {
  const cluster: ClusterView = {
    nodes: () => status?.nodes ?? [],
    status: () => status,
    async stepDown(to) {
      asked.push(to)
    },
  }
  Object.assign(service.app, { cluster })
}
const read = () => operator.ask('GET', '/v1/operator/cluster')
const stepDown = async (body: unknown) => {
  const response = await operator.ask('POST', '/v1/operator/cluster/step-down', body)
  return [response.status, response.status === 200 ? at(response.body, 'data') : at(response.body, 'error', 'code')]
}

// Proves: operator-80
test('a service that runs alone has no cluster, and nobody to step down for', async () => {
  Object.assign(service.app, { cluster: undefined })
  expect(await read()).toMatchObject({ status: 200, body: { data: null } })
  expect(await stepDown({})).toEqual([409, 'no_cluster'])
})

// Proves: operator-80
test('the cluster is shown as it was last read, and unknown when that is long ago', async () => {
  const status = createStatus(createNode('b'))
  setCluster(status)
  expect(await read()).toMatchObject({ status: 200, body: { data: status } })
  setCluster(undefined)
  const unknown = await read()
  expect([unknown.status, unknown.headers.get('retry-after'), at(unknown.body, 'error', 'code')]).toEqual([
    503,
    '5',
    'cluster_unknown',
  ])
})

// Proves: operator-80
test('the leader steps down for a standby that follows, which is audited', async () => {
  setCluster(createStatus(createNode('b', { lag_ms: 43_000 }), createNode('c')))
  expect(await stepDown({ to: 'x' })).toEqual([404, 'node_unknown'])
  expect(await stepDown({ to: 'a' })).toEqual([409, 'already_leader'])
  expect(await stepDown({ to: 'b' })).toEqual([409, 'no_standby_follows'])
  expect((await stepDown({ node: 'b' }))[0]).toBe(422)
  expect(asked).toEqual([])
  expect(await stepDown({ to: 'c' })).toEqual([200, { from: 'a', to: 'c' }])
  expect(await stepDown({})).toEqual([200, { from: 'a', to: null }])
  expect(asked).toEqual(['c', undefined])
  const [second, first] = listNewestAuditEntries(service.app.db, undefined, { action: 'cluster.stepped_down' }, 2)
  expect([first?.actorType, first?.accountId, first?.metadata, second?.metadata]).toEqual([
    'user',
    null,
    '{"from":"a","to":"c"}',
    '{"from":"a","to":null}',
  ])
})
