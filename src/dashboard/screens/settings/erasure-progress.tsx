/** @module How far an erasure is. */
import { Alert, Code, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import type { OperationRecord } from '#features/core/operations/model.ts'
import { get } from '../../api/client.ts'
import { QueryView } from '../../parts/states.tsx'

const CHECK_INTERVAL_MS = 2000
const ENDED: readonly string[] = ['completed', 'failed']

export function ErasureProgress({ operationId }: { readonly operationId: string }) {
  const query = useQuery({
    queryKey: ['erasure', operationId],
    queryFn: ({ signal }) =>
      get<{ data: OperationRecord }>(`/v1/operations/${encodeURIComponent(operationId)}`, {}, signal),
    refetchInterval: ({ state }) => (ENDED.includes(state.data?.data.status ?? '') ? false : CHECK_INTERVAL_MS),
  })
  return (
    <div role="status">
      <QueryView query={query}>{({ data }) => <Progress operation={data} />}</QueryView>
    </div>
  )
}

function Progress({
  operation: { id, status, metadata, error_summary: error },
}: {
  readonly operation: OperationRecord
}) {
  const rows = countRows(metadata)
  if (status === 'completed')
    return (
      <Alert color="green" title="The person is erased">
        {rows === 1 ? '1 record was' : `${rows.toLocaleString()} records were`} removed or emptied.
      </Alert>
    )
  if (status === 'failed')
    return (
      <Alert color="red" title="The erasure failed">
        {error?.message}
      </Alert>
    )
  return (
    <Alert color="blue" title="The person is being erased">
      <Text size="sm">
        {rows.toLocaleString()} records so far. It continues when you leave this page, whose address shows it again. It
        waits for deliveries and imports that are in progress. Operation: <Code>{id}</Code>
      </Text>
    </Alert>
  )
}

function countRows(metadata: unknown): number {
  const { rows_deleted: rows } = Object(metadata) as { readonly rows_deleted?: unknown }
  return typeof rows === 'number' ? rows : 0
}
