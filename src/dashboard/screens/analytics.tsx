import { Page } from '../parts/page.tsx'

export const AnalyticsScreen = () => <Page title="Analytics">Not built</Page>
