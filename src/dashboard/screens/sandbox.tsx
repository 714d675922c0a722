/** @module Captured mail as an inbox: the list beside the open message, or one of both on a narrow screen. */
import { Stack, Text, VisuallyHidden } from '@mantine/core'
import { useMediaQuery, useWindowEvent } from '@mantine/hooks'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { createContext, useContext, useRef, useState } from 'react'
import type { CapturedEmail, CapturedEmailSummary } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { readAgain, usePage } from '../api/data.ts'
import { useLiveEvents, useRefreshSoon } from '../api/live.tsx'
import { useAllowed } from '../api/session.tsx'
import { ActionButton } from '../parts/buttons.tsx'
import { toSendCommand } from '../parts/commands.ts'
import { ConfirmDialog } from '../parts/dialog.tsx'
import { focusLastOpened, ROW_MARK } from '../parts/keyboard.tsx'
import { TextLink } from '../parts/links.tsx'
import { ActionLink, type List, ListBody, ListFilters, useList } from '../parts/list.tsx'
import { EmptyState, isTyping, Page } from '../parts/page.tsx'
import { Time } from '../parts/time.tsx'
import { CAPTURED_FILTERS } from './filters.ts'
import { LISTS, MessageView } from './sandbox/message.tsx'

/** Below it, the list and the message have a screen each. */
const NARROW = '(max-width: 67.99em)'

const DeleteContext = createContext<(deletion: Deletion) => void>(() => undefined)

export default function SandboxScreen() {
  const navigate = useNavigate()
  const { id: openId }: { readonly id?: string } = useParams({ strict: false })
  const list = useInbox()
  const unreadCount = useUnreadCount()
  const roleReason = useAllowed('developer')
  const [deletion, setDeletion] = useState<Deletion>()
  const isNarrow = useMediaQuery(NARROW, undefined, { getInitialValueInEffect: false })
  const ask = (next: Deletion) => roleReason === undefined && setDeletion(next)
  useDeleteKey(openId, ask)
  const onDeleted = ({ id }: Deletion) => {
    setDeletion(undefined)
    void list.reload()
    if (openId !== undefined && (id === undefined || id === openId))
      void navigate({ to: '/sandbox', search: (before) => before, replace: true })
  }
  const showsList = !isNarrow || openId === undefined
  return (
    <Page
      title="Sandbox"
      description={showsList && 'Mail that was captured instead of sent. Nobody but you gets it.'}
      action={
        showsList &&
        !list.isEmpty && (
          <ActionButton variant="default" reason={roleReason} onClick={() => ask({ id: undefined })}>
            Delete all
          </ActionButton>
        )
      }
    >
      <DeleteContext value={ask}>
        {list.isEmpty && openId === undefined ? (
          <Nothing />
        ) : (
          <div className={isNarrow ? undefined : 'inbox-panes'}>
            {showsList && (
              <Stack gap="xs" component="section" aria-label="Inbox">
                <ListFilters list={list} />
                <Text c="dimmed" role="status">
                  {unreadCount === undefined ? '\u00a0' : `${unreadCount.toLocaleString()} unread`}
                </Text>
                <ListBody list={list} noun="captured email" empty={null}>
                  {(rows) => <InboxList rows={rows} openId={openId} />}
                </ListBody>
              </Stack>
            )}
            {(!isNarrow || openId !== undefined) && <Outlet />}
          </div>
        )}
      </DeleteContext>
      {deletion && <DeleteDialog deletion={deletion} onClose={() => setDeletion(undefined)} onDeleted={onDeleted} />}
    </Page>
  )
}

const REFRESH_INTERVAL_MS = 1000

const useUnreadCount = () => useQuery(read.capturedEmails.list({ unread: 'true', per_page: 1 })).data?.pagination.total

function useInbox(): List<CapturedEmailSummary> {
  const queries = useQueryClient()
  const list = useList({ read: read.capturedEmails.list, filters: CAPTURED_FILTERS, isSteady: true, path: '/sandbox' })
  const refreshSoon = useRefreshSoon(() => readAgain(queries, LISTS), REFRESH_INTERVAL_MS)
  useLiveEvents(({ event_type: type }) => {
    // Only these may come with a captured email.
    if (type === 'sent' || type === 'delivered') refreshSoon()
  })
  // An email that was read leaves the list of unread ones only when that is shown again.
  const toShown = (row: CapturedEmailSummary): CapturedEmailSummary => {
    const opened = queries.getQueryData<{ readonly data: CapturedEmail }>(read.capturedEmails.get(row.id).queryKey)
    return opened ? { ...row, read: opened.data.read } : row
  }
  return { ...list, page: list.page && { ...list.page, data: list.page.data.map(toShown) } }
}

/** Beside the list while no message is open. */
export const NothingOpen = () => (
  <Text c="dimmed" p="md">
    Choose an email to read it. J and K move, Enter opens, Delete deletes.
  </Text>
)

export function MessageScreen() {
  const { id }: { readonly id?: string } = useParams({ strict: false })
  const ask = useContext(DeleteContext)
  return id === undefined ? null : <MessageView key={id} id={id} onDelete={(subject) => ask({ id, subject })} />
}

/** Asks to delete the row with the focus, else the open message. */
const useDeleteKey = (openId: string | undefined, ask: (deletion: Deletion) => void): void =>
  useWindowEvent('keydown', ({ key, target }) => {
    if (key !== 'Delete' || !(target instanceof HTMLElement) || isTyping(target)) return
    const row = target.closest<HTMLElement>('[data-captured]')
    const id = row?.dataset['captured'] ?? openId
    if (id !== undefined) ask({ id, subject: row?.dataset['subject'] })
  })

/** The command is of a domain whose mail is captured: one that is not verified, nor covered by one that is. */
function Nothing() {
  const { data } = usePage(read.domains.list({ page: 1 }))
  const captured = data?.data.find(({ status, covered_by: cover }) => status !== 'verified' && cover === undefined)
  return (
    <EmptyState
      title="No captured mail yet"
      text={
        captured
          ? `Mail from ${captured.domain} is captured instead of sent, because the domain is not verified. Try it with one of your API keys:`
          : 'Mail from a domain that is not verified is captured instead of sent: you see it here, its recipients do not. Add a domain of any name to try it.'
      }
      {...(captured && { command: toSendCommand(captured.domain) })}
    >
      {data && !captured && <ActionLink needs="developer" to="/domains/new" label="Add a domain" />}
    </EmptyState>
  )
}

interface Deletion {
  /** Id of the email; undefined: all captured mail. */
  readonly id: string | undefined
  readonly subject?: string | undefined
}

interface DeleteDialogProps {
  readonly deletion: Deletion
  onClose(): void
  onDeleted(deletion: Deletion): void
}

/** The row beside the one of a message, so that `j` and `k` continue there. */
function findNeighbour(id: string): HTMLElement | null | undefined {
  const row = document.querySelector(`[data-captured="${CSS.escape(id)}"]`)
  return (row?.nextElementSibling ?? row?.previousElementSibling)?.querySelector('a')
}

function DeleteDialog({ deletion, onClose, onDeleted }: DeleteDialogProps) {
  const { id } = deletion
  const isAll = id === undefined
  const neighbour = useRef<HTMLElement | null>(null)
  return (
    <ConfirmDialog
      title={isAll ? 'Delete all captured mail?' : 'Delete this captured email?'}
      confirm={isAll ? 'Delete all' : 'Delete'}
      isDangerous
      refreshes={[LISTS]}
      run={(): PromiseLike<unknown> => (isAll ? api.capturedEmails.deleteAll() : api.capturedEmails.delete(id))}
      onDone={() => {
        // Before the row is removed.
        neighbour.current = isAll ? null : (findNeighbour(id) ?? null)
        onDeleted(deletion)
      }}
      onClose={onClose}
      findNextFocus={() => neighbour.current}
    >
      {deletion.subject && (
        <Text fw={600} lineClamp={3} title={deletion.subject}>
          <bdi>{deletion.subject}</bdi>
        </Text>
      )}
      <Text>
        {isAll
          ? 'Everything that was captured in this account is deleted, whatever the search shows.'
          : 'The captured message is deleted.'}{' '}
        The entries under Emails stay. This cannot be undone.
      </Text>
    </ConfirmDialog>
  )
}

interface InboxListProps {
  readonly rows: readonly CapturedEmailSummary[]
  readonly openId: string | undefined
}

function InboxList({ rows, openId }: InboxListProps) {
  return (
    <ul ref={focusLastOpened} className="inbox" aria-label="Captured mail">
      {rows.map((row) => (
        <InboxItem key={row.id} row={row} isOpen={row.id === openId} />
      ))}
    </ul>
  )
}

function InboxItem({ row, isOpen }: { readonly row: CapturedEmailSummary; readonly isOpen: boolean }) {
  const [first, ...others] = row.rcpt_to
  return (
    <li
      {...ROW_MARK}
      data-captured={row.id}
      data-subject={row.subject}
      data-unread={!row.read}
      data-open={isOpen || undefined}
    >
      <TextLink
        to="/sandbox/$id"
        params={{ id: row.id }}
        // The tab of the message is not kept, the filters of the list are.
        search={({ tab: _, ...before }) => before}
        className="inbox-link"
        c="inherit"
        underline="never"
        {...(isOpen && { 'aria-current': 'true' })}
      >
        <span className="inbox-line">
          <span className="inbox-recipient" title={row.rcpt_to.join(', ')}>
            {!row.read && (
              <>
                <span className="inbox-dot" aria-hidden="true" />
                <VisuallyHidden>Unread: </VisuallyHidden>
              </>
            )}
            <bdi>{first ?? '(no recipient)'}</bdi>
            {others.length > 0 && ` +${others.length}`}
          </span>
          <span className="inbox-time">
            <Time iso={row.received_at} />
          </span>
        </span>
        <span className="inbox-subject" title={row.subject}>
          <bdi>{row.subject || '(no subject)'}</bdi>
        </span>
        <span className="inbox-sender" title={row.from}>
          from <bdi>{row.from || '(no sender)'}</bdi>
        </span>
      </TextLink>
    </li>
  )
}
