import { Page } from '../parts/page.tsx'

export const ServerScreen = () => <Page title="Server">Not built</Page>
