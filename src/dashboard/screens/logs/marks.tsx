/** @module How a request, its status and its sender are shown. */
import { Text } from '@mantine/core'
import type { Log } from '#client/api.ts'
import { StatusLabel } from '../../parts/status.tsx'
import { INTERFACES, toStatusTone } from './words.ts'

interface LogProps {
  readonly log: Log
}

/** `POST /v1/emails`; with its interface if that is not the API. */
export const RequestLine = ({ log: { kind, method, path } }: LogProps) => (
  <span title={path ?? method}>
    <Text span inherit c="dimmed">
      {kind === 'api' ? method : `${INTERFACES[kind]} ${method}`}
    </Text>{' '}
    <bdi>{path}</bdi>
  </span>
)

export const RequestStatus = ({ log: { status } }: LogProps) => (
  <StatusLabel tone={toStatusTone(status)}>{status}</StatusLabel>
)

export const Caller = ({ log: { actor_name: name, actor_type: type } }: LogProps) => (
  <bdi>{name ?? (type === 'api_key' ? 'A deleted key' : 'A former user')}</bdi>
)
