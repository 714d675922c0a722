/** @module What a screen shows while it has no data: loading, an error, nothing yet. */
import { Alert, Button, Code, CopyButton, Group, Skeleton, Stack, Text, Title } from '@mantine/core'
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ApiError } from '../api/client.ts'

export const LoadingState = ({ rows = 6 }: { readonly rows?: number }) => (
  <Stack gap="sm" aria-busy="true" aria-label="Loading" role="status">
    {Array.from({ length: rows }, (_, index) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: the rows have no other identity
      <Skeleton key={index} height={28} />
    ))}
  </Stack>
)

interface ErrorStateProps {
  readonly error: unknown
  onRetry?(): unknown
}

/** What went wrong, the request id to quote, and a button to try again. */
export function ErrorState({ error, onRetry }: ErrorStateProps) {
  const { message, requestId, retryAfter } =
    error instanceof ApiError ? error : { message: String(error), requestId: undefined, retryAfter: undefined }
  return (
    <Alert color="red" title="This could not be loaded" role="alert">
      <Stack gap="xs" align="flex-start">
        <Text>{message}</Text>
        {retryAfter !== undefined && <Text>You can try again in {retryAfter} s.</Text>}
        {requestId && (
          <Text size="sm">
            Request id: <Code>{requestId}</Code>
          </Text>
        )}
        {onRetry && (
          <Button size="xs" variant="default" onClick={() => onRetry()}>
            Try again
          </Button>
        )}
      </Stack>
    </Alert>
  )
}

interface EmptyStateProps {
  /** What will appear here. */
  readonly title: string
  readonly children?: ReactNode
  /** The command that creates the first one. */
  readonly command?: string
}

export const EmptyState = ({ title, children, command }: EmptyStateProps) => (
  <Stack align="flex-start" py="xl" gap="sm">
    <Title order={2} size="h4">
      {title}
    </Title>
    {children}
    {command && <CommandBlock command={command} />}
  </Stack>
)

/** A command to copy. */
export const CommandBlock = ({ command }: { readonly command: string }) => (
  <Group align="flex-start" maw="100%">
    <Code block style={{ overflowX: 'auto', maxWidth: '100%' }} tabIndex={0}>
      {command}
    </Code>
    <CopyButton value={command}>
      {({ copied, copy }) => (
        <Button size="xs" variant="default" onClick={copy}>
          {copied ? 'Copied' : 'Copy'}
        </Button>
      )}
    </CopyButton>
  </Group>
)

/** Shows the data of a query, or why there is none. */
export function QueryView<T>({
  query,
  children,
}: {
  readonly query: UseQueryResult<T>
  readonly children: (data: T) => ReactNode
}) {
  if (query.data !== undefined) return children(query.data)
  if (query.error) return <ErrorState error={query.error} onRetry={() => query.refetch()} />
  return <LoadingState />
}
