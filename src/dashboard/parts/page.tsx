/** @module The frame of a screen: heading, sections, facts, links of its area; and what it shows while it has no data. */
import {
  Alert,
  type AlertProps,
  Anchor,
  Button,
  Code,
  CopyButton,
  Group,
  Skeleton,
  Stack,
  type StackProps,
  Text,
  Title,
  type TitleOrder,
} from '@mantine/core'
import { useWindowEvent } from '@mantine/hooks'
import type { UseQueryResult } from '@tanstack/react-query'
import { Link, useNavigate, useRouter, useRouterState } from '@tanstack/react-router'
import { createContext, type ReactNode, useCallback, useContext, useEffect, useState } from 'react'
import { TassisError } from '#client/client.ts'
import { isMissing } from '../api/data.ts'
import { SmallLink } from './links.tsx'

interface PageProps {
  readonly title: string
  readonly action?: ReactNode
  readonly children: ReactNode
}

const SayContext = createContext<(message: ReactNode) => void>(() => undefined)

/** Says on the screen what was done, until something else is said. */
export const useSay = () => useContext(SayContext)

export function Page({ title, action, children }: PageProps) {
  const path = useRouterState({ select: ({ location }) => location.pathname })
  const [said, setSaid] = useState<{ readonly on: string; readonly message: ReactNode }>()
  const say = useCallback((message: ReactNode) => setSaid({ on: path, message }), [path])
  useEffect(() => {
    document.title = `${title} · Tassis`
  }, [title])
  return (
    <SayContext value={say}>
      <Stack gap="lg" maw={1200}>
        <div>
          <Group justify="space-between" align="flex-start">
            <Title order={1} size="h2" style={{ overflowWrap: 'anywhere', minWidth: 0 }}>
              <bdi>{title}</bdi>
            </Title>
            {action}
          </Group>
          <Done message={said?.on === path ? said.message : undefined} mt="xs" />
        </div>
        {children}
      </Stack>
    </SayContext>
  )
}

interface SectionProps extends StackProps {
  readonly title: string
  readonly id?: string
  /** Level of the heading; default: 2. */
  readonly order?: TitleOrder
  /** Looks of the heading; default: h4. */
  readonly size?: 'h3' | 'h4' | 'h5'
  readonly children: ReactNode
}

export const Section = ({ title, id, order = 2, size = 'h4', children, ...props }: SectionProps) => (
  <Stack gap="sm" component="section" aria-label={title} {...props}>
    <Title order={order} size={size} {...(id !== undefined && { id })}>
      {title}
    </Title>
    {children}
  </Stack>
)

/** Leaves out facts without a value. */
export const Facts = ({ facts }: { readonly facts: readonly (readonly [name: string, value: ReactNode])[] }) => (
  <dl className="facts">
    {facts.map(([name, value]) =>
      value === null || value === undefined || value === '' || value === false ? null : (
        <FactRow key={name} name={name} value={value} />
      ),
    )}
  </dl>
)

const FactRow = ({ name, value }: { readonly name: string; readonly value: ReactNode }) => (
  <>
    <dt>{name}</dt>
    <dd>{typeof value === 'string' ? <bdi>{value}</bdi> : value}</dd>
  </>
)

export const LoadingState = ({ rows = 6 }: { readonly rows?: number }) => (
  <Stack gap="sm" aria-busy="true" aria-label="Loading" role="status">
    {Array.from({ length: rows }, (_, index) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: the rows have no other identity
      <Skeleton key={index} height={28} />
    ))}
  </Stack>
)

/** What went wrong, the request id to quote, and a button to try again. */
export function ErrorState({ error, onRetry }: { readonly error: unknown; onRetry?(): unknown }) {
  const { message, requestId, retryAfter } =
    error instanceof TassisError ? error : { message: String(error), requestId: undefined, retryAfter: undefined }
  return (
    <Alert color="red" title="This could not be loaded" role="alert">
      <Stack gap="xs" align="flex-start">
        <Text>{message}</Text>
        {retryAfter !== undefined && <Text>You can try again in {retryAfter} s.</Text>}
        <RequestId id={requestId} />
        {onRetry && (
          <Button size="xs" variant="default" onClick={() => onRetry()}>
            Try again
          </Button>
        )}
      </Stack>
    </Alert>
  )
}

export const RequestId = ({ id }: { readonly id: string | undefined }) =>
  id ? (
    <Text size="sm">
      Request id: <Code>{id}</Code>
    </Text>
  ) : null

interface EmptyStateProps {
  /** What will appear here. */
  readonly title: string
  readonly text?: ReactNode
  readonly children?: ReactNode
  /** The command that creates the first one. */
  readonly command?: string
}

export const EmptyState = ({ title, text, children, command }: EmptyStateProps) => (
  <Stack align="flex-start" py="xl" gap="sm">
    <Title order={2} size="h4">
      {title}
    </Title>
    {text !== undefined && <Text maw={640}>{text}</Text>}
    {children}
    {command && <CommandBlock command={command} />}
  </Stack>
)

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

interface AreaNavigationProps {
  /** Names the links for screen readers. */
  readonly label: string
  /** The first one is the start of the area, whose path all others begin with. */
  readonly links: readonly { readonly to: string; readonly label: string }[]
}

export function AreaNavigation({ label, links: [start, ...others] }: AreaNavigationProps) {
  const path = useRouterState({ select: ({ location }) => location.pathname })
  const current = others.find(({ to }) => path === to || path.startsWith(`${to}/`)) ?? start
  return (
    <Group component="nav" aria-label={label} gap="md">
      {[start, ...others].map(
        (link) =>
          link && (
            <Anchor
              key={link.to}
              component={Link}
              to={link.to}
              // Otherwise the start counts as the page of all screens below it.
              activeOptions={{ exact: true }}
              size="sm"
              {...(link === current && { 'aria-current': 'page', fw: 700, underline: 'always' as const })}
            >
              {link.label}
            </Anchor>
          ),
      )}
    </Group>
  )
}

/** Calls `onEscape` for Esc, unless a dialog, a menu or a field with text uses the key itself. */
export const useEscape = (onEscape: () => void): void =>
  useWindowEvent(
    'keydown',
    (event) => {
      if (event.key === 'Escape' && !isUsedElsewhere(event.target)) onEscape()
    },
    // Before the listeners of a dialog, which would be gone already.
    { capture: true },
  )

const isUsedElsewhere = (target: EventTarget | null): boolean =>
  document.querySelector('[role=dialog], [role=menu], [role=tooltip]') !== null ||
  (target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)))

interface RecordPageProps<T> extends Omit<PageProps, 'children'> {
  /** Where the list of such things is, which the Esc key leads to. */
  readonly list: string
  readonly listName: ReactNode
  readonly query: UseQueryResult<T>
  /** What is said when the account has no such thing. */
  readonly missing: string
  readonly children: (data: T) => ReactNode
  /** What the Esc key does instead. */
  onEscape?(): void
}

export function RecordPage<T>({ list, listName, query, missing, children, onEscape, ...page }: RecordPageProps<T>) {
  const navigate = useNavigate()
  useEscape(onEscape ?? (() => void navigate({ to: list })))
  return (
    <Page {...page}>
      <SmallLink to={list}>{listName}</SmallLink>
      {query.data === undefined && isMissing(query.error) ? (
        <Text>{missing}</Text>
      ) : (
        <QueryView query={query}>{children}</QueryView>
      )}
    </Page>
  )
}

/** Where the browser was before, such as a list with its filters and page; else the list. */
export function useBack(list: string): () => void {
  const { history } = useRouter()
  const navigate = useNavigate()
  return () => {
    if (history.canGoBack()) history.back()
    else void navigate({ to: list })
  }
}

/** What was done, announced to screen readers. */
export const Done = ({ message, ...props }: AlertProps & { readonly message: ReactNode }) => (
  <div role="status">
    {message !== undefined && (
      <Alert color="green" {...props}>
        {message}
      </Alert>
    )}
  </div>
)
