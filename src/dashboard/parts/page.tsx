/** @module The frame of a screen: heading, sections, facts, links of its area; and what it shows while it has no data. */
import { Anchor, Button, Code, Group, List, Skeleton, Text, Title, type TitleOrder } from '@mantine/core'
import { useWindowEvent } from '@mantine/hooks'
import type { UseQueryResult } from '@tanstack/react-query'
import { useNavigate, useRouter, useRouterState } from '@tanstack/react-router'
import { createContext, type ReactNode, useCallback, useContext, useEffect, useState } from 'react'
import { TassisError } from '#client/client.ts'
import { isMissing, SessionContext } from '../api/data.ts'
import { Copy } from './copy.tsx'
import type { Target } from './filters.ts'
import { formatRelative } from './format.ts'
import { IconArrowLeft } from './icons.ts'
import { AppLink } from './links.tsx'
import { Notice } from './status.tsx'

interface PageProps {
  readonly title: string
  /** Where it is in: a list, or the screen above. */
  readonly back?: { readonly label: ReactNode; readonly target: Target }
  /** Its state, beside the title. */
  readonly status?: ReactNode
  /** Links to the other screens of its area. */
  readonly navigation?: ReactNode
  /** One line on what this is. */
  readonly description?: ReactNode
  /** What can be done, the most important one last. */
  readonly action?: ReactNode
  readonly children: ReactNode
}

const SayContext = createContext<(message: ReactNode) => void>(() => undefined)

/** Says on the screen what was done, until something else is said. */
export const useSay = () => useContext(SayContext)

export function Page({ title, back, status, navigation, description, action, children }: PageProps) {
  const path = useRouterState({ select: ({ location }) => location.pathname })
  const [said, setSaid] = useState<{ readonly on: string; readonly message: ReactNode }>()
  const say = useCallback((message: ReactNode) => setSaid({ on: path, message }), [path])
  useEffect(() => {
    document.title = `${title} · Tassis`
  }, [title])
  return (
    <SayContext value={say}>
      <div className="page">
        <div className="page-header">
          {back && (
            <AppLink {...back.target} className="page-back">
              <IconArrowLeft size="0.875rem" aria-hidden />
              {back.label}
            </AppLink>
          )}
          <div className="page-head">
            <div className="page-title">
              <Title order={1}>
                <bdi>{title}</bdi>
              </Title>
              {status}
            </div>
            {action && <div className="page-actions">{action}</div>}
          </div>
          {navigation}
          {description && <p className="page-description">{description}</p>}
          <div role="status">{said?.on === path && <Notice tone="good">{said.message}</Notice>}</div>
        </div>
        {children}
      </div>
    </SayContext>
  )
}

interface SectionProps {
  readonly title: string
  readonly id?: string
  /** One line on what this is. */
  readonly description?: ReactNode
  /** What can be done here, beside the heading. */
  readonly action?: ReactNode
  /** Level of the heading; default: 2. */
  readonly order?: TitleOrder
  /** Whether lines are around it. */
  readonly isCard?: boolean
  readonly children?: ReactNode
}

export const Section = ({ title, id, description, action, order = 2, isCard = false, children }: SectionProps) => (
  <section className={isCard ? 'section card' : 'section'} aria-label={title}>
    <div className="section-head">
      <Title order={order} size="h4" {...(id !== undefined && { id })}>
        {title}
      </Title>
      {action}
      {description && <p>{description}</p>}
    </div>
    {children}
  </section>
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
  <div aria-busy="true" aria-label="Loading" role="status">
    <LoadingLines rows={rows} />
  </div>
)

/** In the shape of a list: lines of several lengths, as high as its rows. */
export const LoadingLines = ({ rows }: { readonly rows: number }) => (
  <div className="loading">
    {Array.from({ length: rows }, (_, index) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: the rows have no other identity
      <div key={index}>
        <Skeleton height={12} width={`${28 + ((index * 7) % 3) * 8}%`} />
        <Skeleton height={12} width={`${20 + ((index * 5) % 4) * 6}%`} />
        <Skeleton height={12} width="10%" />
      </div>
    ))}
  </div>
)

/** What went wrong, and a button to try again. */
export const ErrorState = ({ error, onRetry }: { readonly error: unknown; onRetry?(): unknown }) => (
  <ErrorNotice
    error={error}
    title="This could not be loaded"
    action={
      onRetry && (
        <Button size="xs" variant="default" onClick={() => onRetry()}>
          Try again
        </Button>
      )
    }
  />
)

interface ErrorNoticeProps {
  readonly error: unknown
  readonly title?: string
  readonly action?: ReactNode
}

const formatWait = (seconds: number): string =>
  seconds < 120 ? `in ${seconds} s` : formatRelative(new Date(Date.now() + seconds * 1000).toISOString())

/** An error of a kind of its own, such as a `TypeError`, is a mistake of ours, whose words help nobody. */
const toMessage = (error: unknown): string =>
  error instanceof Error && error.name !== 'Error' ? 'This is a mistake in Tassis. Load the page again.' : String(error)

/** What the API says is wrong, part by part, and the request id to quote. */
export function ErrorNotice({ error, ...notice }: ErrorNoticeProps) {
  const { message, details, retryAfter, requestId } =
    error instanceof TassisError ? error : new TassisError(0, { code: 'failed', message: toMessage(error) })
  return (
    <Notice tone="bad" isUrgent {...notice}>
      {message}
      {details.length > 0 && (
        <List size="sm">
          {details.map((detail) => (
            <List.Item key={`${detail.field} ${detail.message}`}>
              {detail.field && <Code>{detail.field}</Code>} {detail.message}
            </List.Item>
          ))}
        </List>
      )}
      {retryAfter !== undefined && <Text>You can try again {formatWait(retryAfter)}.</Text>}
      <RequestId id={requestId} />
    </Notice>
  )
}

/** Leads to the request in the log. A plain link: also errors outside of the router have one. */
function RequestId({ id }: { readonly id: string | undefined }) {
  const role = useContext(SessionContext)?.role
  return id ? (
    <Text size="sm">
      Request id: <Code>{id}</Code>{' '}
      {role !== 'support' && (
        <Anchor inherit underline="always" href={`/app/logs?request_id=${encodeURIComponent(id)}`}>
          Show in the logs
        </Anchor>
      )}
    </Text>
  ) : null
}

export interface EmptyStateProps {
  /** What will appear here. */
  readonly title: string
  readonly text?: ReactNode
  readonly children?: ReactNode
  /** The command that creates the first one. */
  readonly command?: string
}

export const EmptyState = ({ title, text, children, command }: EmptyStateProps) => (
  <div className="empty">
    <Title order={2} size="h4">
      {title}
    </Title>
    {text !== undefined && <p>{text}</p>}
    {children}
    {command && <CommandBlock command={command} />}
  </div>
)

export const CommandBlock = ({ command }: { readonly command: string }) => (
  <Group align="flex-start" maw="100%">
    <Code block style={{ overflowX: 'auto', maxWidth: '100%' }} tabIndex={0}>
      {command}
    </Code>
    <Copy value={command} what="the command" />
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
  readonly links: readonly { readonly to: NonNullable<Target['to']>; readonly label: string }[]
}

/** How much of the links before stays in sight. */
const SHOWN_BEFORE = 40

/** On a narrow screen, where the row of links scrolls. */
function showCurrent(row: HTMLElement | null) {
  const current = row?.querySelector('[aria-current]')
  if (row && current)
    row.scrollLeft += current.getBoundingClientRect().left - row.getBoundingClientRect().left - SHOWN_BEFORE
}

export function AreaNavigation({ label, links: [start, ...others] }: AreaNavigationProps) {
  const path = useRouterState({ select: ({ location }) => location.pathname })
  const current = others.find(({ to }) => path === to || path.startsWith(`${to}/`)) ?? start
  return (
    <nav ref={showCurrent} aria-label={label} className="tabs">
      {[start, ...others].map(
        (link) =>
          link && (
            <AppLink
              key={link.to}
              to={link.to}
              className="tab"
              // Otherwise the start counts as the page of all screens below it.
              activeOptions={{ exact: true }}
              {...(link === current && { 'aria-current': 'page' })}
            >
              {link.label}
            </AppLink>
          ),
      )}
    </nav>
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
  document.querySelector('[role=dialog], [role=menu], [role=tooltip]') !== null || isTyping(target)

/** Whether a key is for a field with text, or for a dialog. */
export const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable ||
    /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) ||
    target.closest('[role=dialog]') !== null)

interface RecordPageProps<T> extends Omit<PageProps, 'children' | 'back'> {
  /** Where the list of such things is, which the Esc key leads to. */
  readonly list: Target
  readonly listName: ReactNode
  readonly query: UseQueryResult<T>
  /** What is said when the account has no such thing; default: why that may be. */
  readonly missing?: string
  readonly children: (data: T) => ReactNode
  /** What the Esc key does instead. */
  onEscape?(): void
}

const MISSING = 'It may have been deleted, or belong to another account.'

/** The screen of one thing. */
export function RecordPage<T>(props: RecordPageProps<T>) {
  const { list, listName, query, missing = MISSING, children, onEscape, ...page } = props
  const navigate = useNavigate()
  useEscape(onEscape ?? (() => void navigate(list)))
  return (
    <Page {...page} back={{ label: listName, target: list }}>
      {query.data === undefined && isMissing(query.error) ? (
        <EmptyState title="Not found" text={missing} />
      ) : (
        <QueryView query={query}>{children}</QueryView>
      )}
    </Page>
  )
}

/** Where the browser was before, such as a list with its filters and page; else the list. */
export function useBack(list: Target): () => void {
  const { history } = useRouter()
  const navigate = useNavigate()
  return () => {
    if (history.canGoBack()) history.back()
    else void navigate(list)
  }
}
