/** @module Why an action failed: beside its form, which keeps what was typed. */
import { Alert, Code, List, Text } from '@mantine/core'
import { ApiError } from '../api/client.ts'

/** Shows nothing without an error. */
export function FormError({ error }: { readonly error: unknown }) {
  if (!error) return null
  if (!(error instanceof ApiError)) return <Alert color="red">{String(error)}</Alert>
  const { message, details, retryAfter, requestId } = error
  return (
    <Alert color="red" role="alert">
      <Text>{message}</Text>
      {details.length > 0 && (
        <List size="sm">
          {details.map((detail) => (
            <List.Item key={`${detail.field} ${detail.message}`}>
              {detail.field && <Code>{detail.field}</Code>} {detail.message}
            </List.Item>
          ))}
        </List>
      )}
      {retryAfter !== undefined && <Text size="sm">You can try again in {retryAfter} s.</Text>}
      {requestId && (
        <Text size="sm">
          Request id: <Code>{requestId}</Code>
        </Text>
      )}
    </Alert>
  )
}
