/** @module Captured mail as an inbox: the list beside the open message, or one of both on a narrow screen. */
import { Button, Checkbox, Group, Stack, Text } from '@mantine/core'
import { useMediaQuery, useWindowEvent } from '@mantine/hooks'
import { getRouteApi, Outlet, useParams } from '@tanstack/react-router'
import { createContext, useContext, useRef, useState } from 'react'
import { useAllowed } from '../api/session.tsx'
import { toSendCommand } from '../parts/commands.ts'
import { ActionButton, bindChecked, DialogFrame } from '../parts/form.tsx'
import { EmptyState, ErrorState, LoadingState, Page } from '../parts/page.tsx'
import { NewRows, SearchForm } from '../parts/table.tsx'
import { useExampleDomain } from './domains/queries.ts'
import { InboxList } from './sandbox/list.tsx'
import { MessageView } from './sandbox/message.tsx'
import { useDeleteCaptured, useInbox, useUnreadCount } from './sandbox/queries.ts'
import type { InboxSearch } from './sandbox/search.ts'

const route = getRouteApi('/sandbox')

/** Below it, the list and the message have a screen each. */
const NARROW = '(max-width: 67.99em)'

const DeleteContext = createContext<(deletion: Deletion) => void>(() => undefined)

export default function SandboxScreen() {
  const { q, unread, cursor } = route.useSearch()
  const navigate = route.useNavigate()
  const { id: openId }: { readonly id?: string } = useParams({ strict: false })
  const inbox = useInbox({ q, unread: unread && 'true', cursor })
  const unreadCount = useUnreadCount()
  const roleReason = useAllowed('developer')
  const [deletion, setDeletion] = useState<Deletion>()
  const isNarrow = useMediaQuery(NARROW, undefined, { getInitialValueInEffect: false })
  const ask = (next: Deletion) => roleReason === undefined && setDeletion(next)
  useDeleteKey(openId, ask)
  const onDeleted = ({ id }: Deletion) => {
    setDeletion(undefined)
    inbox.drop(id)
    if (openId !== undefined && (id === undefined || id === openId))
      void navigate({ to: '/sandbox', search: (before) => before, replace: true })
  }
  const search = (next: InboxSearch) => void navigate({ to: '/sandbox', search: next })
  const isEmpty = inbox.rows?.length === 0 && !q && !unread && !cursor
  const showsList = !isNarrow || openId === undefined
  return (
    <Page
      title="Sandbox"
      action={
        showsList &&
        !isEmpty && (
          <ActionButton variant="default" reason={roleReason} onClick={() => ask({ id: undefined })}>
            Delete all
          </ActionButton>
        )
      }
    >
      <DeleteContext value={ask}>
        {isEmpty && openId === undefined ? (
          <Nothing />
        ) : (
          <div className={isNarrow ? undefined : 'inbox-panes'}>
            {showsList && (
              <Stack gap="xs" component="section" aria-label="Inbox">
                <Filters
                  key={`${q} ${unread}`}
                  search={{ ...(q && { q }), ...(unread && { unread }) }}
                  onSearch={search}
                />
                <Group justify="space-between" gap="xs" mih="1.875rem">
                  <Text size="sm" role="status">
                    {unreadCount === undefined ? ' ' : `${unreadCount.toLocaleString()} unread`}
                  </Text>
                  <NewRows
                    isInline
                    count={cursor ? 0 : inbox.newCount}
                    hasMore={inbox.hasMoreNew}
                    onShow={inbox.showNew}
                  />
                </Group>
                {inbox.query.error && <ErrorState error={inbox.query.error} onRetry={() => inbox.query.refetch()} />}
                {inbox.rows === undefined ? (
                  !inbox.query.error && <LoadingState />
                ) : inbox.rows.length === 0 ? (
                  <NothingFound onClear={() => search({})} />
                ) : (
                  <Stack gap="xs" style={{ opacity: inbox.query.isPlaceholderData ? 0.6 : 1 }}>
                    <InboxList rows={inbox.rows} openId={openId} />
                    <Pages
                      next={inbox.page?.pagination.next_cursor}
                      isFirst={!cursor}
                      onPage={(next) =>
                        search({ ...(q && { q }), ...(unread && { unread }), ...(next && { cursor: next }) })
                      }
                    />
                  </Stack>
                )}
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
    if (key !== 'Delete' || !(target instanceof HTMLElement)) return
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest('[role=dialog]')) return
    const row = target.closest<HTMLElement>('[data-captured]')
    const id = row?.dataset['captured'] ?? openId
    if (id !== undefined) ask({ id, subject: row?.dataset['subject'] })
  })

function Filters({ search, onSearch }: { readonly search: InboxSearch; onSearch(search: InboxSearch): void }) {
  const toSearch = (q: string | undefined, isUnread: boolean): InboxSearch => ({
    ...(q !== undefined && { q }),
    ...(isUnread && { unread: true as const }),
  })
  return (
    <Stack gap="xs">
      <SearchForm
        label="Recipient, sender or subject"
        button="default"
        maw="none"
        maxLength={200}
        value={search.q}
        onSearch={(q) => onSearch(toSearch(q, search.unread === true))}
      />
      <Checkbox
        label="Only unread"
        {...bindChecked(search.unread === true, (checked) => onSearch(toSearch(search.q, checked)))}
      />
    </Stack>
  )
}

function Nothing() {
  const domain = useExampleDomain()
  return (
    <EmptyState title="Captured mail will appear here" command={toSendCommand(domain?.domain)}>
      <Text>
        Mail from a domain that is not verified yet is captured instead of sent, and so is all mail of a server in the
        delivery mode “capture”. Put in one of your API keys to capture the first.
      </Text>
    </EmptyState>
  )
}

const NothingFound = ({ onClear }: { onClear(): void }) => (
  <EmptyState title="No captured email matches">
    <Button variant="default" onClick={onClear}>
      Show all
    </Button>
  </EmptyState>
)

interface PagesProps {
  readonly next: string | undefined
  readonly isFirst: boolean
  /** @param cursor undefined: the first page */
  onPage(cursor: string | undefined): void
}

const Pages = ({ next, isFirst, onPage }: PagesProps) =>
  isFirst && next === undefined ? null : (
    <Group gap="xs" component="nav" aria-label="Pages">
      {!isFirst && (
        <Button variant="default" size="xs" onClick={() => onPage(undefined)}>
          Newest
        </Button>
      )}
      {next !== undefined && (
        <Button variant="default" size="xs" onClick={() => onPage(next)}>
          Older
        </Button>
      )}
    </Group>
  )

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
  const remove = useDeleteCaptured(id)
  const isAll = id === undefined
  const neighbour = useRef<HTMLElement | null>(null)
  return (
    <DialogFrame
      title={isAll ? 'Delete all captured mail?' : 'Delete this captured email?'}
      confirm={isAll ? 'Delete all' : 'Delete'}
      isDangerous
      work={remove}
      onConfirm={() =>
        remove.mutate(undefined, {
          onSuccess() {
            // Before the row is removed.
            neighbour.current = isAll ? null : (findNeighbour(id) ?? null)
            onDeleted(deletion)
          },
        })
      }
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
    </DialogFrame>
  )
}
